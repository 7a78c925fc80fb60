// A gradient that the emulated kernels of weights/ compute.
#pragma once

#include <string>
#include <vector>

#include "gradient_case.hpp"

namespace plumb_test::emulation {

/// Plants a fault in the copies of kernels that run after this.
void wait_too_little(bool does);

using plumb::cuda::WeightsPlan;
using plumb::cuda::WeightsTile;

inline std::optional<WeightsPlan> plan(const plumb::ConvProblem& problem,
                                       const WeightsTile* tile = nullptr) {
  const auto sizes = plumb::cuda::weights_sizes(problem);
  if (!sizes) return std::nullopt;
  const auto cut = plumb::cuda::cut_weights(*sizes, sum_bytes(problem.dtype), tile);
  if (!cut) return std::nullopt;
  return WeightsPlan{*sizes, *cut, plumb::cuda::weights_strides(problem)};
}

/// The family's kernels, as they are planned.
inline WeightsKernel kernel_of(const WeightsPlan& plan, plumb::DType dtype) {
  const auto launch = [&plan, dtype](const plumb::cuda::WeightsCall& call) {
    dtype == plumb::DType::f64   ? plumb::cuda::launch_weights_f64(plan, call, nullptr)
    : dtype == plumb::DType::f32 ? plumb::cuda::launch_weights_f32(plan, call, nullptr)
                                 : plumb::cuda::launch_weights_f16(plan, call, nullptr);
  };
  return {launch, plan.cut.parts * plan.sizes.weights(),
          plumb::cuda::weights_chain(plan.sizes, plan.cut)};
}

class WeightsCase : public GradientCase {
 public:
  WeightsCase(const plumb::ConvProblem& problem, const WeightsOptions& options, std::uint32_t seed)
      : GradientCase(problem, options, seed), dtype_(problem.dtype) {}
  std::string run(const WeightsPlan& plan) { return GradientCase::run(kernel_of(plan, dtype_)); }
  std::vector<double> launch(const WeightsPlan& plan) {
    return GradientCase::launch(kernel_of(plan, dtype_));
  }

 private:
  plumb::DType dtype_;
};

}  // namespace plumb_test::emulation
