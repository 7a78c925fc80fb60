// Fields on the CPU are convolved a step at a time: a plane of a band of output rows. A thread
// takes some consecutive steps, and loads for each only the planes that the steps before it have
// not.
//
// Each output is summed in the order of the plan's blocks of taps, so that results are the same
// bits for any number of threads.
#include "cpu_kernels/fields/conv_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/src/parallel/parallel.hpp"
#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/conv/conv_launch.hpp"
#include "cpu_kernels/fields/field_steps.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

/// Returns how many consecutive steps a thread takes at once. The first of them loads all planes
/// under the filter, unless the thread has done the step before.
int64_t steps_of_task(const FieldPlan& plan, int64_t steps, int threads) {
  constexpr int64_t tasks_of_thread = 8;
  const int64_t evenly = std::max<int64_t>(steps / (tasks_of_thread * threads), 1);
  const int64_t most = ceil_div(steps, threads);
  return std::clamp(4 * (plan.planes - 1), std::min(evenly, most), std::max(evenly, most));
}

int slots(const ConvProblem& problem, const FieldPlan& plan, std::size_t filter_bytes,
          const DeviceInfo& device) {
  return slots_of(problem, device, std::max(device.units, 1), filter_bytes, plan.slot_bytes());
}

template <class Real>
std::size_t filter_bytes(const ConvProblem& problem, const FieldPlan& plan) {
  return padded(static_cast<int64_t>(field_header_bytes) +
                problem.k * plan.filter_reals * int64_t{sizeof(Real)});
}

/// Returns from a thread's part of the workspace to the next. Large ones get huge pages of their
/// own, where there is room: small pages from here and there would share some sets of a level-2
/// cache and leave others empty, and in a page that two threads write one of them is slower where
/// their cores share no cache.
std::size_t slot_step(const FieldPlan& plan, int threads, std::size_t filter_bytes) {
  constexpr std::size_t large = 256 << 10, huge_page = 2 << 20;
  const std::size_t pages = (plan.slot_bytes() + huge_page - 1) / huge_page;
  const std::size_t all = static_cast<std::size_t>(threads) * pages * huge_page;
  const bool fits = all + filter_bytes <= workspace_limit_bytes;
  return plan.slot_bytes() >= large && fits ? pages * huge_page : plan.slot_bytes();
}

template <class Real, bool ordered>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  if (const Support usual = forward_in<Real>(problem); !usual) return {.support = usual};
  const auto steps_over = [](int64_t stride, int64_t outputs) { return stride > 1 && outputs > 1; };
  if (steps_over(problem.stride.d, problem.z()) || steps_over(problem.stride.h, problem.p()) ||
      steps_over(problem.stride.w, problem.q()))
    return {.support = {Reason::geometry,
                        fmt::format("the stride is {} x {} x {}; expected 1", problem.stride.d,
                                    problem.stride.h, problem.stride.w)}};
  const FieldKernels<Real>& kernels = field_kernels<Real>(device);
  auto plan = std::make_shared<FieldPlan>(plan_field(problem, kernels, ordered));
  if (plan->blocks.empty())
    return exceeds_workspace("the filters and the input of the smallest band");
  PlanResult result;
  result.filter_bytes = filter_bytes<Real>(problem, *plan);
  const int threads = slots(problem, *plan, result.filter_bytes, device);
  if (problem.n > 0) {
    result.workspace_bytes =
        static_cast<std::size_t>(threads) * slot_step(*plan, threads, result.filter_bytes);
    const double images = static_cast<double>(problem.n) * static_cast<double>(problem.groups);
    const double rate = 0.85 * device.nominal_fp32_flop_per_second * sizeof(float) / sizeof(Real);
    const double products =
        images * field_work(problem, kernels, *plan) + products_of_conversion(problem);
    result.estimate_seconds =
        2 * products / rate + problem.bytes() / device.nominal_bytes_per_second;
  }
  result.kernel = std::move(plan);
  return result;
}

template <class Real>
void pack_filters(const FilterPacking& packing, const KernelPlan* kernel) {
  const auto& plan = static_cast<const FieldPlan&>(*kernel);
  const ConvProblem& problem = packing.problem;
  const FieldAxes axes = field_axes(problem);
  auto* const header = static_cast<Real*>(packing.filters);
  Real* to = header + field_header_bytes / sizeof(Real);
  bool finite = true;
  const int64_t row_r = plan.along_row ? 0 : axes.w_r;
  const int64_t row_s = plan.along_row ? plan.lanes * axes.w_s : 0;
  with_stored<Real>(problem.dtype, [&](auto stored) {
    const auto* const w = static_cast<const decltype(stored)*>(packing.w);
    for (int64_t k = 0; k < problem.k; ++k)
      for (const FilterBlock& block : plan.blocks) {
        const auto* const from = w + k * axes.w_k + block.c * axes.w_c + block.t * axes.w_t +
                                 block.r * axes.w_r + block.s * axes.w_s;
        for (int64_t j = 0; j < block.columns; ++j)
          for (int64_t i = 0; i < block.rows; ++i) {
            *to = static_cast<Real>(widen(from[i * (row_r + row_s) + j * axes.w_s]));
            finite &= std::isfinite(*to++);
          }
      }
  });
  *header = finite ? Real{0} : Real{1};
}

template <class Real>
void launch(const ConvLaunch& launch, const KernelPlan* kernel) {
  const auto& plan = static_cast<const FieldPlan&>(*kernel);
  const ConvProblem& problem = launch.problem;
  if (problem.n == 0) return;
  const FieldLaunch<Real> shared(launch, plan, field_kernels<Real>(launch.device));
  const std::size_t packed_bytes = filter_bytes<Real>(problem, plan);
  const int places = slots(problem, plan, packed_bytes, launch.device);
  const int threads = std::min(places, available_threads());
  const std::size_t step = slot_step(plan, places, packed_bytes);
  const int64_t steps = shared.steps(), together = steps_of_task(plan, steps, threads);
  parallel_shares(threads, ceil_div(steps, together), [&](const auto& take, int thread) {
    FieldSteps<Real> work(shared, static_cast<std::byte*>(launch.workspace) +
                                      static_cast<std::size_t>(thread) * step);
    for (int64_t task = take(); task >= 0; task = take())
      work.run(task * together, std::min((task + 1) * together, steps));
  });
}

template <class Real, bool ordered>
constexpr ConvAlgorithm algorithm(std::string_view name, Operand operand, Accumulator sums) {
  return {.name = name,
          .numerics = {.operand = operand,
                       .accumulator = sums,
                       .reproducible = ordered,
                       .invariant = true},
          .takes_depth = true,
          .takes_boundaries = true,
          .accumulates = true,
          .reproduces = ordered ? multiplies_and_adds_at_once : nullptr,
          .plan = plan<Real, ordered>,
          .pack_filters = pack_filters<Real>,
          .launch = launch<Real>};
}

}  // namespace

const ConvAlgorithm conv_fields_fp32 =
    algorithm<float, false>("cpu.conv.fields.fp32", Operand::fp32, Accumulator::fp32_fma);
const ConvAlgorithm conv_fields_fp64 =
    algorithm<double, false>("cpu.conv.fields.fp64", Operand::fp64, Accumulator::fp64_fma);
const ConvAlgorithm conv_fields_spec_fp32 =
    algorithm<float, true>("cpu.conv.fields_spec.fp32", Operand::fp32, Accumulator::fp32_fma);
const ConvAlgorithm conv_fields_spec_fp64 =
    algorithm<double, true>("cpu.conv.fields_spec.fp64", Operand::fp64, Accumulator::fp64_fma);

}  // namespace plumb
