// Backward weights on the CPU in the order of GradientTree: sixteen chains of products for each
// segment of the positions, and a binary tree of segments.
//
// Vectors run over positions, as in conv_weights.cpp, whose bands and tiles do the work: chain i
// has the columns q with q mod 16 = i, so that with sixteen lanes a tile has all chains, and with
// fewer a band is gone over once for each group of chains. A thread takes a block of dw and a part
// of the segments, whose number is a power of two, and adds them as they come: a sum waits in its
// level of the tree for the one beside it. Nothing depends on the instruction set or the number of
// threads.
#include "cpu_kernels/weights/conv_weights_tree.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "cpu_kernels/weights/weights_images.hpp"
#include "cpu_kernels/weights/weights_launch.hpp"
#include "plumb/gradient_tree.hpp"

namespace plumb {
namespace {

/// The bands of `sum` never reach from one segment to the next.
struct WeightsTreePlan final : WeightsPlan {
  WeightsTreePlan(const WeightsPlan& bands, const GradientTree& order)
      : WeightsPlan(bands), tree(order) {}
  GradientTree tree;
  int64_t segments_of_part = 1;
  int64_t level_reals = 0;  ///< of a block's sums of one level
  int levels = 1;
};

/// Adds the chains of each sum up, of which `lanes` are neighbours: [group][sum][lane] becomes
/// [sum].
template <class Real>
void add_chains(const WeightsKernels<Real>& kernels, Real* chains, int64_t sums, Real* to) {
  const int64_t of_group = sums * kernels.lanes;
  for (int64_t half = GradientTree::lanes / kernels.lanes / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half * of_group; ++i) chains[i] += chains[half * of_group + i];
  kernels.add_lanes(chains, sums, to);
}

/// Sums that wait for their neighbours: level i has that of 2^i segments.
template <class Real>
class Levels {
 public:
  Levels(Real* memory, int64_t sums, int64_t level_reals)
      : memory_(memory), sums_(sums), level_(level_reals) {}
  /// Where the next segment's sums are to be written before push().
  Real* next(int levels) { return memory_ + levels * level_; }
  void push(int levels) {
    Real* const carry = next(levels);
    int at = 0;
    for (; pushed_ >> at & 1; ++at)
      for (int64_t i = 0; i < sums_; ++i) carry[i] = memory_[at * level_ + i] + carry[i];
    std::copy(carry, carry + sums_, memory_ + at * level_);
    ++pushed_;
  }
  /// The sum of all that have been pushed, or zeros.
  const Real* total() {
    if (pushed_ == 0) {
      std::fill_n(memory_, sums_, Real{0});
      return memory_;
    }
    const int lowest = std::countr_zero(pushed_);
    Real* const sum = memory_ + lowest * level_;
    for (int at = lowest + 1; pushed_ >> at != 0; ++at)
      if (pushed_ >> at & 1)
        for (int64_t i = 0; i < sums_; ++i) sum[i] = memory_[at * level_ + i] + sum[i];
    return sum;
  }

 private:
  Real* memory_;
  int64_t sums_, level_;
  std::uint64_t pushed_ = 0;
};

/// Adds the products of a segment to a block's chains.
template <class Real>
void sum_segment(const WeightsShared<Real>& shared, const WeightsTreePlan& plan,
                 const WeightsBlock& block, int64_t segment, const WeightsSlot<Real>& slot) {
  const WeightsKernels<Real>& kernels = shared.kernels;
  const int64_t sums = block.filters * block.channels * shared.taps();
  std::fill_n(slot.sums, sums * GradientTree::lanes, Real{0});
  const auto at = plan.tree.at(segment, shared.problem.p());
  const int64_t plane_end = at.plane + at.planes, row_end = at.p + at.rows;
  for (int64_t plane = at.plane; plane < plane_end; plane += plan.sum.images_together)
    for (int64_t p = at.p; p < row_end; p += plan.sum.rows) {
      const WeightsBand band{.image = plane,
                             .images = std::min(plan.sum.images_together, plane_end - plane),
                             .p = p,
                             .rows = std::min(plan.sum.rows, row_end - p)};
      add_band(shared, block, band, slot, [&](WeightsRun<Real> run) {
        run.goes_on = true;
        run.step = GradientTree::lanes;
        for (run.first = 0; run.first < GradientTree::lanes; run.first += kernels.lanes) {
          kernels.sum_positions(run);
          run.sums += sums * kernels.lanes;
        }
      });
    }
}

/// Sums a part of the segments for a block, and writes it to the parts; the only one goes to dw.
template <class Real>
void sum_part(const WeightsShared<Real>& shared, const WeightsTreePlan& plan,
              const WeightsBlock& block, int64_t part, const WeightsSlot<Real>& slot) {
  const int64_t terms = block.channels * shared.taps(), sums = block.filters * terms;
  const int64_t first = part * plan.segments_of_part;
  const int64_t end = std::min(first + plan.segments_of_part, plan.tree.segments);
  Levels<Real> levels(slot.sums + plan.level_reals * GradientTree::lanes, sums, plan.level_reals);
  for (int64_t segment = first; segment < end; ++segment) {
    sum_segment(shared, plan, block, segment, slot);
    add_chains(shared.kernels, slot.sums, sums, levels.next(plan.levels));
    levels.push(plan.levels);
  }
  const Real* const total = levels.total();
  const int64_t k = block.group * shared.group_k() + block.k, term = block.c * shared.taps();
  if (plan.sum.parts == 1) {
    for (int64_t i = 0; i < block.filters; ++i)
      shared.output.write(total + i * terms, k + i, term, terms);
    return;
  }
  Real* const to = shared.parts + (part * shared.problem.k + k) * shared.terms() + term;
  for (int64_t i = 0; i < block.filters; ++i)
    std::copy_n(total + i * terms, terms, to + i * shared.terms());
}

template <class Real>
WeightsTreePlan tree_plan(const ConvProblem& problem) {
  constexpr int64_t enough_tasks = 64, parts_limit = 16 << 20;
  const GradientTree tree(problem);
  WeightsTreePlan plan(plan_weights_in_segments<Real>(problem, tree), tree);
  const int64_t blocks = problem.groups * plan.k_blocks * plan.c_blocks;
  const int64_t weights_bytes = problem.k * (problem.c / problem.groups) * problem.t * problem.r *
                                problem.s * int64_t{sizeof(Real)};
  const int64_t parts = std::min(enough_tasks / blocks, parts_limit / weights_bytes);
  plan.segments_of_part = tree.segments_of_part(std::max<int64_t>(parts, 1));
  plan.sum.parts = std::max<int64_t>(ceil_div(tree.segments, plan.segments_of_part), 1);
  plan.levels = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(plan.segments_of_part)));
  plan.level_reals = plan.k_block * plan.c_block * problem.t * problem.r * problem.s;
  if (plan.sum.parts > 1) plan.parts_bytes = padded(plan.sum.parts * weights_bytes);
  plan.sums_bytes =
      padded(plan.level_reals * (GradientTree::lanes + plan.levels + 1) * int64_t{sizeof(Real)});
  return plan;
}

template <class Real>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  if (Support support = takes_weights<Real>(problem); !support) return {.support = support};
  // Chains and levels are added beside what conv_weights.cpp has.
  WeightsTreePlan cut = tree_plan<Real>(problem);
  const double work = weights_work(problem, weights_kernels<Real>(device), cut);
  return weights_result<Real>(problem, device, std::move(cut), work, 0.7);
}

template <class Real>
void launch(const ConvLaunch& launch, const KernelPlan* kernel) {
  const auto& plan = static_cast<const WeightsTreePlan&>(*kernel);
  launch_weights<Real>(
      launch, plan, &plan.tree, fill_weights_offsets<Real>,
      [&](const WeightsShared<Real>& shared, const WeightsBlock& block, int64_t part,
          const WeightsSlot<Real>& slot) { sum_part(shared, plan, block, part, slot); });
}

/// The most additions on the way of a product to its sum.
template <class Real>
double chain(const ConvProblem& problem) {
  if (!takes_weights<Real>(problem) || problem.n == 0) return static_cast<double>(problem.terms());
  return GradientTree(problem).chain(problem.q());
}

template <class Real>
constexpr ConvAlgorithm algorithm(std::string_view name, Operand operand, Accumulator sums) {
  return {.name = name,
          .numerics = {.operand = operand,
                       .accumulator = sums,
                       .reproducible = true,
                       .chain = chain<Real>},
          .takes_depth = true,
          .accumulates = true,
          .takes_backward_weights = true,
          .reproduces = multiplies_and_adds_at_once,
          .plan = plan<Real>,
          .launch = launch<Real>};
}

}  // namespace

const ConvAlgorithm conv_weights_tree_fp32 =
    algorithm<float>("cpu.conv.weights_tree.fp32", Operand::fp32, Accumulator::fp32_fma);
const ConvAlgorithm conv_weights_tree_fp64 =
    algorithm<double>("cpu.conv.weights_tree.fp64", Operand::fp64, Accumulator::fp64_fma);

}  // namespace plumb
