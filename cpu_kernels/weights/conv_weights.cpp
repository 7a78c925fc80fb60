// Backward weights on the CPU. A thread takes a block of dw and a part of the positions, and adds
// the part's bands one after another; then the parts are added by a tree, and dw is written.
//
// Bands, parts and blocks do not depend on the number of threads, so that results are the same bits
// for any.
#include "cpu_kernels/weights/conv_weights.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "core/src/parallel/parallel.hpp"
#include "cpu_kernels/weights/weights_bands.hpp"

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
  PlanResult result{.support = takes_weights<Real>(problem)};
  if (!result.support) return result;
  const WeightsKernels<Real>& kernels = weights_kernels<Real>(device);
  auto plan = std::make_shared<WeightsPlan>(plan_weights(problem, kernels));
  if (plan->shared_bytes() + plan->slot_bytes() > workspace_limit_bytes)
    return {
        .support = {Reason::too_large,
                    fmt::format("needs {} bytes for the sums and a band; expected at most {}",
                                plan->shared_bytes() + plan->slot_bytes(), workspace_limit_bytes)}};
  result.workspace_bytes =
      plan->shared_bytes() +
      static_cast<std::size_t>(weights_slots(problem, *plan, device)) * plan->slot_bytes();
  const double rate = 0.8 * device.nominal_fp32_flop_per_second * sizeof(float) / sizeof(Real);
  result.estimate_seconds = 2 * weights_work(problem, kernels, *plan) / rate +
                            problem.bytes() / device.nominal_bytes_per_second;
  result.kernel = std::move(plan);
  return result;
}

template <class Real>
void launch(const ConvLaunch& launch, const KernelPlan* kernel) {
  const auto& plan = static_cast<const WeightsPlan&>(*kernel);
  const ConvProblem& problem = launch.problem;
  auto* const workspace = static_cast<std::byte*>(launch.workspace);
  const WeightsShared<Real> shared{
      .launch = launch,
      .problem = problem,
      .plan = plan,
      .kernels = weights_kernels<Real>(launch.device),
      .conv_kernels = conv_kernels<Real>(launch.device),
      .axes = weights_axes(problem),
      .x_readable = readable_range(problem.x_extents(), problem.x_strides),
      .offsets = reinterpret_cast<int64_t*>(workspace),
      .parts = reinterpret_cast<Real*>(workspace + plan.offsets_bytes),
      .output = WeightsOutput<Real>(launch, weights_axes(problem), nullptr)};
  fill_weights_offsets(shared);
  const int threads = std::min(weights_slots(problem, plan, launch.device), available_threads());
  const int64_t blocks = problem.groups * plan.k_blocks * plan.c_blocks;
  parallel_tasks(threads, blocks * plan.sum.parts, 1, [&](int64_t task, int thread) {
    const WeightsBlock block = weights_block(shared, task % blocks);
    // Blocks of rounded size may be enough before the last.
    if (block.filters <= 0 || block.channels <= 0) return;
    sum_part(shared, block, task / blocks,
             WeightsSlot<Real>(plan, workspace + plan.shared_bytes() +
                                         static_cast<std::size_t>(thread) * plan.slot_bytes()));
  });
  if (plan.sum.parts == 1) return;
  constexpr int64_t together = 4096;
  const int64_t weights = problem.k * shared.terms();
  parallel_for(threads, ceil_div(weights, together), [&](int64_t i) {
    shared.output.add_parts(shared.parts, plan.sum.parts, i * together,
                            std::min((i + 1) * together, weights));
  });
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
