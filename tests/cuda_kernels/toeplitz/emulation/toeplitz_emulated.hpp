// A convolution that the emulated Toeplitz kernel makes, and how its outputs are judged.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>

#include "cuda_kernels/fields/emulation/conv_tensors.hpp"
#include "plumb/plumb.hpp"
#include "plumb/problem_text.hpp"
#include "plumb/validate.hpp"
#include "support/absent_device.hpp"
#include "toeplitz_run.hpp"

namespace plumb_test::emulation {

using plumb::cuda::ToeplitzMode;

enum class Placing { dense, mirrored };

struct ToeplitzOptions {
  std::optional<ToeplitzMode> mode = ToeplitzMode::planes;
  int products = 3;
  Data data = Data::integers;
  Placing x = Placing::dense, y = Placing::dense;
  bool bias = false, relu = false, accumulate = false;
  int blocks = 2;
  EmulatedFault fault = EmulatedFault::none;
};

inline plumb::Strides strides_of(const plumb::Extents& extents, Placing placing) {
  plumb::Strides strides = plumb::dense_strides(extents);
  if (placing == Placing::mirrored)
    for (int i = 0; i < extents.rank(); ++i) strides[i] *= i % 2 == 0 ? -3 : 3;
  return strides;
}

class ToeplitzEmulated {
 public:
  ToeplitzEmulated(const std::string& text, const ToeplitzOptions& options, std::uint32_t seed = 1)
      : options_(options),
        problem_(problem_of(text, options)),
        plan_(plan_of(problem_, options)),
        tensors_(problem_, options, seed) {}

  const plumb::cuda::ToeplitzPlan& plan() const { return plan_; }

  /// Convolves, and returns what is wrong with y; empty where nothing is. Sums of integers are
  /// exact, those of other data within what the arithmetic is allowed.
  std::string run() {
    return tensors_.convolve(
        ToeplitzRun{
            .problem = problem_, .plan = plan_, .blocks = options_.blocks, .fault = options_.fault},
        options_, run_toeplitz, numerics());
  }

 private:
  static plumb::ConvProblem problem_of(const std::string& text, const ToeplitzOptions& options) {
    plumb::ConvProblem problem = plumb::parse_problem(text).problem;
    problem.x_strides = strides_of(problem.x_extents(), options.x);
    problem.y_strides = strides_of(problem.y_extents(), options.y);
    return plumb::check(problem);
  }
  static plumb::cuda::ToeplitzPlan plan_of(const plumb::ConvProblem& problem,
                                           const ToeplitzOptions& options) {
    const auto plan = plumb::cuda::plan_toeplitz(plumb::cuda::field_problem(problem), hopper(),
                                                 options.products, options.mode);
    REQUIRE(plan);
    if (options.mode) REQUIRE(plan->filters.mode == *options.mode);
    return *plan;
  }

  plumb::Numerics numerics() const {
    return {.operand = options_.products == 3 ? plumb::Operand::fp16 : plumb::Operand::fp16_scaled,
            .accumulator = plumb::Accumulator::tensor_core_fp32,
            .products = options_.products,
            .term_multiple = 16};
  }

  ToeplitzOptions options_;
  plumb::ConvProblem problem_;
  plumb::cuda::ToeplitzPlan plan_;
  ConvTensors tensors_;
};

}  // namespace plumb_test::emulation
