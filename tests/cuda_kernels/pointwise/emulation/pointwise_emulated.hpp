// A convolution that the emulated pointwise kernel makes, and how its outputs are judged.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "cuda_kernels/fields/emulation/judged_conv.hpp"
#include "cuda_kernels/wide/emulation/convolved.hpp"
#include "cuda_kernels/wide/emulation/placing.hpp"
#include "plumb/plumb.hpp"
#include "plumb/problem_text.hpp"
#include "plumb/validate.hpp"
#include "pointwise_run.hpp"
#include "support/absent_device.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::emulation {

struct PointwiseOptions {
  plumb::cuda::PointwiseClass of = plumb::cuda::pointwise_class_fp16;
  Placing x = Placing::channels_last, y = Placing::channels_last;
  plumb::cuda::PointwiseChoice choice = {};
  Data data = Data::integers;
  bool bias = false, relu = false, accumulate = false;
  bool shifted = false;    ///< x begins one element behind an aligned address
  bool exchanged = false;  ///< filters lie as those of backward data: channels outermost
  int images_at_once = 0;  ///< of a slice; 0: as planned
  double share = 1;        ///< of the bound
  plumb::cuda::PointwiseFault fault = plumb::cuda::PointwiseFault::none;
};

/// One of few multiprocessors, whose blocks go through several tiles.
inline plumb::DeviceInfo small_gpu() {
  plumb::DeviceInfo device = hopper();
  device.units = 2;
  return device;
}

class PointwiseEmulated {
 public:
  PointwiseEmulated(const std::string& text, const PointwiseOptions& options,
                    std::uint32_t seed = 1)
      : PointwiseEmulated(plumb::parse_problem(text).problem, options, seed) {}
  PointwiseEmulated(const plumb::ConvProblem& problem, const PointwiseOptions& options,
                    std::uint32_t seed)
      : options_(options),
        problem_(placed(problem, options)),
        plan_(problem_, options.of, small_gpu(), options.choice),
        random_(seed),
        x_(problem_.dtype, problem_.x_extents(), problem_.x_strides),
        w_(problem_.dtype, problem_.w_extents(), problem_.w_strides),
        bias_(problem_.dtype, {problem_.k}),
        y_(problem_.dtype, problem_.y_extents(), problem_.y_strides) {
    // Filters first, so that they do not depend on N.
    for (HostTensor* tensor : {&w_, &x_, &bias_})
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
    if (options.images_at_once > 0) plan_.images = options.images_at_once;
  }

  const plumb::ConvProblem& problem() const { return problem_; }
  plumb::cuda::PointwisePlan& plan() { return plan_; }
  plumb::cuda::PointwiseInput input() const {
    return plumb::cuda::pointwise_input(problem_, options_.of, nullptr);
  }
  plumb::cuda::PointwiseOutput output() const {
    return plumb::cuda::pointwise_output(problem_, plan_.filters, nullptr);
  }

  std::vector<char> packed_filters() const {
    return packed_pointwise(problem_, plan_, w_.view().data());
  }

  /// Convolves, and returns what is wrong with y; empty where nothing is.
  std::string run() {
    if (plumb::Support support =
            plumb::cuda::supports_pointwise(problem_, options_.of, small_gpu());
        !support)
      return support.sentence;
    return judged_outputs(
        x_, options_.shifted, y_,
        [&](const void* x, void* y) {
          run_pointwise({.problem = problem_,
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
  static plumb::ConvProblem placed(plumb::ConvProblem problem, const PointwiseOptions& options) {
    problem.dtype = options.of.stored;
    problem.x_strides = strides_of(problem.x_extents(), options.x);
    problem.y_strides = strides_of(problem.y_extents(), options.y);
    if (options.exchanged) {
      problem.w_strides = plumb::dense_strides(problem.w_extents());
      problem.w_strides[0] = 1, problem.w_strides[1] = problem.k;
    }
    return plumb::check(problem);
  }

  std::string judge(const std::vector<double>& values) const {
    const plumb::Numerics numerics{.operand = tensor_core_operand(options_.of.stored),
                                   .accumulator = plumb::Accumulator::tensor_core_fp32,
                                   .products = options_.of.products,
                                   .term_multiple = 16};
    return first_wrong_output({problem_, x_, w_, bias_, y_}, options_, numerics, values,
                              options_.share);
  }

  PointwiseOptions options_;
  plumb::ConvProblem problem_;
  plumb::cuda::PointwisePlan plan_;
  Random random_;
  HostTensor x_, w_, bias_, y_;
};

}  // namespace plumb_test::emulation
