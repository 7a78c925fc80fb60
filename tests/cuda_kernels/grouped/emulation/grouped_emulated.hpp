// A convolution that the emulated kernel of grouped/ makes, and how its outputs are judged.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "cuda_kernels/fields/emulation/judged_conv.hpp"
#include "cuda_kernels/wide/emulation/convolved.hpp"
#include "cuda_kernels/wide/emulation/placing.hpp"
#include "grouped_run.hpp"
#include "plumb/plumb.hpp"
#include "plumb/problem_text.hpp"
#include "plumb/validate.hpp"
#include "support/absent_device.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::emulation {

struct GroupedOptions {
  plumb::DType stored = plumb::DType::f16;
  Placing x = Placing::channels_last, y = Placing::channels_last;
  plumb::cuda::GroupedChoice choice = {};
  Data data = Data::integers;
  bool bias = false, relu = false, accumulate = false;
  bool shifted = false;    ///< x begins one element behind an aligned address
  bool exchanged = false;  ///< filters lie as those of backward data: turned, channels outermost
  plumb::cuda::GroupedFault fault = plumb::cuda::GroupedFault::none;
};

/// One of few multiprocessors, whose blocks go through several tiles.
inline plumb::DeviceInfo two_units() {
  plumb::DeviceInfo device = ampere();
  device.units = 2;
  return device;
}

class GroupedEmulated {
 public:
  GroupedEmulated(const std::string& text, const GroupedOptions& options, std::uint32_t seed = 1)
      : options_(options),
        problem_(placed(plumb::parse_problem(text).problem, options)),
        plan_(plumb::cuda::plan_grouped(problem_, two_units(), options.choice).value()),
        random_(seed),
        x_(problem_.dtype, problem_.x_extents(), problem_.x_strides),
        w_(problem_.dtype, problem_.w_extents(), problem_.w_strides),
        bias_(problem_.dtype, {problem_.k}),
        y_(problem_.dtype, problem_.y_extents(), problem_.y_strides) {
    // Filters first, so that they do not depend on N.
    for (HostTensor* tensor : {&w_, &x_, &bias_})
      tensor->fill([&] { return draw(random_, options.data); });
    if (options.accumulate) y_.fill([&] { return draw(random_, options.data); });
    if (options.data == Data::infinite) {
      put(x_, random_, INFINITY), put(x_, random_, NAN);
      put(w_, random_, -INFINITY), put(w_, random_, NAN, true);
    }
  }

  const plumb::ConvProblem& problem() const { return problem_; }
  plumb::cuda::GroupedPlan& plan() { return plan_; }
  std::vector<char> packed_filters() const {
    return packed_grouped(problem_, plan_, w_.view().data());
  }

  /// Convolves, and returns what is wrong with y; empty where nothing is.
  std::string run() {
    if (plumb::Support support =
            plumb::cuda::supports_grouped(problem_, options_.stored, two_units());
        !support)
      return support.sentence;
    return judged_outputs(
        x_, options_.shifted, y_,
        [&](const void* x, void* y) {
          run_grouped({.problem = problem_,
                       .plan = plan_,
                       .x = x,
                       .w = w_.view().data(),
                       .bias = options_.bias ? bias_.view().data() : nullptr,
                       .y = y,
                       .relu = options_.relu,
                       .accumulate = options_.accumulate,
                       .fault = options_.fault});
        },
        [&](const std::vector<double>& values) { return judge(values); });
  }

 private:
  static plumb::ConvProblem placed(plumb::ConvProblem problem, const GroupedOptions& options) {
    problem.dtype = options.stored;
    problem.x_strides = strides_of(problem.x_extents(), options.x);
    problem.y_strides = strides_of(problem.y_extents(), options.y);
    if (options.exchanged) {
      problem.w_strides = plumb::dense_strides(problem.w_extents());
      const std::int64_t taps = problem.w_strides[1];
      problem.w_strides[0] = taps, problem.w_strides[1] = taps * problem.k;
    }
    return plumb::check(problem);
  }

  std::string judge(const std::vector<double>& values) const {
    const plumb::Numerics numerics{.operand = tensor_core_operand(options_.stored),
                                   .accumulator = plumb::Accumulator::tensor_core_fp32,
                                   .chain = plumb::cuda::grouped_chain};
    return first_wrong_output({problem_, x_, w_, bias_, y_}, options_, numerics, values);
  }

  GroupedOptions options_;
  plumb::ConvProblem problem_;
  plumb::cuda::GroupedPlan plan_;
  Random random_;
  HostTensor x_, w_, bias_, y_;
};

}  // namespace plumb_test::emulation
