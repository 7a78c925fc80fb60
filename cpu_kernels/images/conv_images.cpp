// Convolutions with vectors over images: rows of any length fill vectors, and each output has the
// taps that lie in its image alone.
//
// Each output is summed in the order of its terms, so that results are the same bits however the
// work is cut and whoever does it.
#include "cpu_kernels/images/conv_images.hpp"

#include <algorithm>
#include <memory>
#include <string_view>

#include "core/src/parallel/parallel.hpp"
#include "cpu_kernels/conv/conv_launch.hpp"
#include "cpu_kernels/images/images_band.hpp"
#include "cpu_kernels/images/images_plan.hpp"

namespace plumb {
namespace {

using std::int64_t;

template <class Real>
int slots(const ConvProblem& problem, const ImagesPlan& plan, const DeviceInfo& device) {
  return slots_of(problem, device, plan.tasks(problem), packed_bytes<Real>(problem, device),
                  plan.slot_bytes());
}

template <class Real>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  if (const Support usual = forward_in<Real>(problem); !usual) return {.support = usual};
  constexpr std::string_view parts = "the filters, the borders or the input of the smallest band";
  if (filters_exceed_workspace<Real>(problem)) return exceeds_workspace(parts);
  auto plan = std::make_shared<ImagesPlan>(
      plan_images(problem, images_kernels<Real>(device), std::max(device.units, 1)));
  const std::size_t packed = packed_bytes<Real>(problem, device);
  if (plan->bands == 0 || packed + plan->slot_bytes() > workspace_limit_bytes)
    return exceeds_workspace(parts);
  PlanResult result;
  result.filter_bytes = packed;
  if (problem.n > 0) {
    result.workspace_bytes =
        static_cast<std::size_t>(slots<Real>(problem, *plan, device)) * plan->slot_bytes();
    const double rate = 0.86 * device.nominal_fp32_flop_per_second * sizeof(float) / sizeof(Real);
    result.estimate_seconds =
        2 * plan->products / rate + problem.bytes() / device.nominal_bytes_per_second;
  }
  result.kernel = std::move(plan);
  return result;
}

template <class Real>
void launch(const ConvLaunch& launch, const KernelPlan* kernel) {
  const auto& plan = static_cast<const ImagesPlan&>(*kernel);
  const ConvProblem& problem = launch.problem;
  if (problem.n == 0) return;
  const ImagesLaunch<Real> shared{.launch = launch,
                                  .problem = problem,
                                  .plan = plan,
                                  .kernels = images_kernels<Real>(launch.device),
                                  .copies = channels_kernels<Real>(launch.device)};
  const int threads = std::min(slots<Real>(problem, plan, launch.device), available_threads());
  parallel_shares(threads, plan.tasks(problem), [&](const auto& take, int thread) {
    ImagesBand<Real> band(shared, static_cast<std::byte*>(launch.workspace) +
                                      static_cast<std::size_t>(thread) * plan.slot_bytes());
    for (int64_t task = take(); task >= 0; task = take()) band.run(task);
  });
}

template <class Real>
constexpr ConvAlgorithm algorithm(std::string_view name, Operand operand, Accumulator sums) {
  return {.name = name,
          .numerics = {.operand = operand,
                       .accumulator = sums,
                       .reproducible = true,
                       .invariant = true},
          .accumulates = true,
          .reproduces = multiplies_and_adds_at_once,
          .plan = plan<Real>,
          .pack_filters = pack_without_plan<pack_filters<Real>>,
          .launch = launch<Real>};
}

}  // namespace

const ConvAlgorithm conv_images_fp32 =
    algorithm<float>("cpu.conv.images.fp32", Operand::fp32, Accumulator::fp32_fma);
const ConvAlgorithm conv_images_fp64 =
    algorithm<double>("cpu.conv.images.fp64", Operand::fp64, Accumulator::fp64_fma);

}  // namespace plumb
