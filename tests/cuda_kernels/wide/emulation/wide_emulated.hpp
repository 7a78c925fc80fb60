// A convolution that the emulated wide kernel makes, and how its outputs are judged.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cuda_kernels/fields/emulation/judged_conv.hpp"
#include "cuda_kernels/wide/emulation/convolved.hpp"
#include "placing.hpp"
#include "plumb/plumb.hpp"
#include "plumb/problem_text.hpp"
#include "plumb/validate.hpp"
#include "support/absent_device.hpp"
#include "support/host_tensor.hpp"
#include "wide_run.hpp"

namespace plumb_test::emulation {

struct WideOptions {
  plumb::cuda::WideClass of = plumb::cuda::wide_class_fp16;
  Placing x = Placing::channels_last, y = Placing::channels_last;
  plumb::cuda::WideChoice choice{.shape = 3, .splits = 1};
  int folded_axes = 0;  ///< the choice's
  int across = 0;       ///< the choice's
  Data data = Data::integers;
  bool bias = false, relu = false, accumulate = false;
  bool shifted = false;    ///< x begins one element behind an aligned address
  int images_at_once = 0;  ///< that are repacked; 0: as planned
  EmulatedFault fault = EmulatedFault::none;
};

class WideEmulated {
 public:
  WideEmulated(const std::string& text, const WideOptions& options, std::uint32_t seed = 1)
      : options_(options),
        problem_(problem_of(text, options)),
        plan_(problem_, options.of, hopper(),
              {options.choice.shape, options.choice.splits, options.folded_axes, options.across}),
        random_(seed),
        x_(problem_.dtype, problem_.x_extents(), problem_.x_strides),
        w_(problem_.dtype, problem_.w_extents(), problem_.w_strides),
        bias_(problem_.dtype, {problem_.k}),
        y_(problem_.dtype, problem_.y_extents(), problem_.y_strides) {
    for (HostTensor* tensor : {&x_, &w_, &bias_})
      tensor->fill([&] { return draw(random_, options.data); });
    if (options.accumulate) y_.fill([&] { return draw(random_, options.data); });
    if (options.data == Data::infinite)
      put(x_, random_, INFINITY), put(x_, random_, NAN), put(w_, random_, -INFINITY);
    if (options.data == Data::large_products) {
      constexpr double rounds_up = 0x1p64 * (1 - 0x1p-13);
      for (HostTensor* tensor : {&x_, &w_}) {
        plumb::Dims first = tensor->extents();
        for (int i = 0; i < first.rank(); ++i) first[i] = 0;
        tensor->set(first, rounds_up);
      }
    }
    if (options.data == Data::largest)
      for (const double sign : {1, -1}) put(x_, random_, sign * std::numeric_limits<float>::max());
    if (options.images_at_once > 0) plan_.input.images = options.images_at_once;
  }

  const plumb::ConvProblem& problem() const { return problem_; }
  const plumb::cuda::WidePlan& plan() const { return plan_; }
  const HostTensor& x() const { return x_; }
  const HostTensor& w() const { return w_; }

  WideRun run_of(void* y, const void* x) const {
    return {.problem = problem_,
            .plan = plan_,
            .x = x,
            .w = w_.view().data(),
            .bias = options_.bias ? bias_.view().data() : nullptr,
            .y = y,
            .relu = options_.relu,
            .accumulate = options_.accumulate,
            .fault = options_.fault};
  }

  /// Convolves, and returns what is wrong with y; empty where nothing is. Sums of integers are
  /// exact, those of other data within `share` of what the arithmetic is allowed.
  std::string run(double share = 1) {
    return judged_outputs(
        x_, options_.shifted, y_, [&](const void* x, void* y) { run_wide(run_of(y, x)); },
        [&](const std::vector<double>& values) { return judge(values, share); });
  }

 private:
  static plumb::ConvProblem problem_of(const std::string& text, const WideOptions& options) {
    plumb::ConvProblem problem = plumb::parse_problem(text).problem;
    problem.dtype = options.of.stored;
    problem.x_strides = strides_of(problem.x_extents(), options.x);
    problem.y_strides = strides_of(problem.y_extents(), options.y);
    return plumb::check(problem);
  }

  std::string judge(const std::vector<double>& values, double share) const {
    const plumb::Numerics numerics{.operand = options_.of.splits_in_memory()
                                                  ? plumb::Operand::fp16
                                                  : tensor_core_operand(options_.of.stored),
                                   .accumulator = plumb::Accumulator::tensor_core_fp32,
                                   .products = options_.of.products,
                                   .term_multiple = 16};
    return first_wrong_output({problem_, x_, w_, bias_, y_}, options_, numerics, values, share);
  }

  WideOptions options_;
  plumb::ConvProblem problem_;
  plumb::cuda::WidePlan plan_;
  Random random_;
  HostTensor x_, w_, bias_, y_;
};

}  // namespace plumb_test::emulation
