// Backward weights on the CPU. A thread takes a block of dw and a part of the positions, and adds
// the part's bands one after another; then the parts are added by a tree, and dw is written.
//
// Bands, parts and blocks do not depend on the number of threads, so that results are the same bits
// for any.
#include "cpu_kernels/weights/conv_weights.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cpu_kernels/weights/weights_images.hpp"
#include "cpu_kernels/weights/weights_launch.hpp"

namespace plumb {
namespace {

using std::int64_t;

/// Copies a block's sums by filters, [term][filter], to [filter][term]. Some terms at a time are a
/// few lines of cache.
template <class Real>
void transpose_sums(const Real* sums, int64_t padded, int64_t filters, int64_t terms, Real* to,
                    int64_t pitch) {
  constexpr int64_t together = 16;
  for (int64_t first = 0; first < terms; first += together) {
    const int64_t last = std::min(first + together, terms);
    for (int64_t i = 0; i < filters; ++i)
      for (int64_t term = first; term < last; ++term)
        to[i * pitch + term] = sums[term * padded + i];
  }
}

/// Sums a part of the positions for a block, and writes it to the parts; the only one goes to dw.
template <class Real>
void sum_part(const WeightsShared<Real>& shared, const WeightsBlock& block, int64_t part,
              const WeightsSlot<Real>& slot) {
  const WeightsPlan& plan = shared.plan;
  const int64_t terms = block.channels * shared.taps(), lanes = shared.kernels.lanes;
  std::fill_n(slot.sums, terms * (plan.by_filters ? plan.padded : block.filters * lanes), Real{0});
  for (int64_t band = plan.sum.band_of(part); band < plan.sum.band_of(part + 1); ++band)
    add_band(shared, block, band_at(plan.sum, band, shared.problem.p()), slot,
             [&](const WeightsRun<Real>& run) {
               plan.by_filters ? shared.kernels.sum_filters(run)
                               : shared.kernels.sum_positions(run);
             });
  const int64_t k = block.group * shared.group_k() + block.k, term = block.c * shared.taps();
  const bool alone = plan.sum.parts == 1;
  const int64_t pitch = alone ? terms : shared.terms();
  Real* const to =
      alone ? slot.block : shared.parts + (part * shared.problem.k + k) * shared.terms() + term;
  if (plan.by_filters)
    transpose_sums(slot.sums, plan.padded, block.filters, terms, to, pitch);
  else
    for (int64_t i = 0; i < block.filters; ++i)
      shared.kernels.add_lanes(slot.sums + i * terms * lanes, terms, to + i * pitch);
  if (alone)
    for (int64_t i = 0; i < block.filters; ++i)
      shared.output.write(to + i * pitch, k + i, term, terms);
}

template <class Real>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  if (Support support = takes_weights<Real>(problem); !support) return {.support = support};
  const WeightsKernels<Real>& kernels = weights_kernels<Real>(device);
  WeightsPlan cut = plan_weights(problem, kernels);
  const double work = weights_work(problem, kernels, cut);
  // Of many channels, x is copied again for each block of filters.
  const double share = cut.by_filters && problem.c / problem.groups >= 16 ? 0.8 : 0.9;
  return weights_result<Real>(problem, device, std::move(cut), work, share);
}

template <class Real>
void launch(const ConvLaunch& launch, const KernelPlan* kernel) {
  launch_weights<Real>(launch, static_cast<const WeightsPlan&>(*kernel), nullptr,
                       fill_weights_offsets<Real>, sum_part<Real>);
}

/// Where the algorithm is made of forward convolutions of another, the chain is that of all terms.
template <class Real>
double chain(const ConvProblem& problem) {
  return takes_weights<Real>(problem) ? weights_chain<Real>(problem)
                                      : static_cast<double>(problem.terms());
}

template <class Real>
constexpr ConvAlgorithm algorithm(std::string_view name, Operand operand, Accumulator sums) {
  return {.name = name,
          .numerics = {.operand = operand, .accumulator = sums, .chain = chain<Real>},
          .takes_depth = true,
          .accumulates = true,
          .takes_backward_weights = true,
          .plan = plan<Real>,
          .launch = launch<Real>};
}

}  // namespace

const ConvAlgorithm conv_weights_fp32 =
    algorithm<float>("cpu.conv.weights.fp32", Operand::fp32, Accumulator::fp32_fma);
const ConvAlgorithm conv_weights_fp64 =
    algorithm<double>("cpu.conv.weights.fp64", Operand::fp64, Accumulator::fp64_fma);

}  // namespace plumb
