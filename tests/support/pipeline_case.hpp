// One convolution of tensors on the host, for the tests of the pipeline: its tensors, and what a
// plan makes of them when all of it lies on the device at once.
#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include "plumb/pipeline.hpp"
#include "plumb/plumb.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test {

/// Small and with everything in it: two groups, stride, padding on one side more than on the other.
inline plumb::ConvProblem pipeline_problem(std::int64_t n) {
  plumb::ConvProblem problem;
  problem.n = n, problem.c = 4, problem.h = 9, problem.w = 11;
  problem.k = 6, problem.r = 3, problem.s = 2, problem.groups = 2;
  problem.stride = {2, 1};
  problem.padding = {1, 0, 2, 1};
  return problem;
}

/// The same with one axis, which is periodic.
inline plumb::ConvProblem row_problem(std::int64_t n) {
  plumb::ConvProblem problem;
  problem.n = n, problem.c = 4, problem.w = 11;
  problem.k = 6, problem.s = 3, problem.groups = 2;
  problem.stride.w = 2;
  problem.padding.left = 1, problem.padding.right = 2;
  problem.boundary = plumb::Boundary::periodic;
  return problem;
}

/// The same with three axes, each with a boundary of its own.
inline plumb::ConvProblem deep_problem(std::int64_t n) {
  plumb::ConvProblem problem = pipeline_problem(n);
  problem.d = 4, problem.h = 5, problem.w = 6, problem.t = 2;
  problem.padding.front = 1;
  problem.boundary = {plumb::Boundary::symmetric, plumb::Boundary::reflect,
                      plumb::Boundary::periodic};
  return problem;
}

/// Integers sum to the same bits in any order; normal values do only in the same order.
enum class Values { integers, normal };

/// The host side of a convolution: random x, w and bias, and a y that nobody has written.
class PipelineCase {
 public:
  explicit PipelineCase(const plumb::ConvProblem& problem, bool bias = true,
                        Values values = Values::integers)
      : problem_(plumb::check(problem)),
        x_(problem.dtype, problem_.x_extents(), problem_.x_strides),
        w_(problem.dtype, problem_.w_extents(), problem_.w_strides),
        bias_(problem.dtype, {problem_.k}),
        y_(problem.dtype, problem_.y_extents(), problem_.y_strides),
        biased_(bias) {
    Random random(7);
    for (HostTensor* tensor : {&x_, &w_, &bias_})
      tensor->fill(
          [&] { return values == Values::normal ? random.normal() : random.integer(-4, 4); });
  }

  const plumb::ConvProblem& problem() const { return problem_; }
  plumb::ConvOptions options() const {
    plumb::ConvOptions options;
    options.bias = biased_;
    options.activation = plumb::Activation::relu;
    return options;
  }
  HostTensor& y() { return y_; }
  /// Values for a convolution to be added to.
  void fill_y() {
    Random random(11);
    y_.fill([&] { return random.integer(-4, 4); });
  }
  plumb::ConvTensors tensors() {
    return {.x = x_.view(),
            .w = w_.view(),
            .bias = biased_ ? plumb::ConstTensorView(bias_.view()) : plumb::ConstTensorView(),
            .y = y_.view()};
  }

  /// y, canaries and all, as this algorithm computes it from tensors on the device; where it
  /// accumulates, from the y that there is.
  std::vector<std::byte> resident(const plumb::Device& device, std::string_view algorithm,
                                  bool accumulate = false) {
    plumb::Queue queue(device);
    HostTensor y(problem_.dtype, problem_.y_extents(), problem_.y_strides);
    if (accumulate)
      std::memcpy(y.view().data(), y_.view().data(),
                  static_cast<std::size_t>(plumb::element_count(problem_.y_extents())) *
                      plumb::size_in_bytes(problem_.dtype));
    const DeviceTensor device_x(queue, x_), device_w(queue, w_), device_bias(queue, bias_),
        device_y(queue, y);
    plumb::ConvOptions options = this->options();
    options.algorithm = algorithm;
    options.accumulate = accumulate;
    plumb::ConvTensors tensors{.x = device_x, .w = device_w, .y = device_y};
    if (biased_) tensors.bias = device_bias;
    plumb::ConvPlan(device, problem_, options).execute(queue, tensors);
    device_y.read_back(queue, y);
    return y.bytes();
  }

 private:
  plumb::ConvProblem problem_;
  HostTensor x_, w_, bias_, y_;
  bool biased_;
};

/// Tensors of a case in pinned memory of a device, to run a pipeline on and copy the result back.
class PinnedCase {
 public:
  PinnedCase(const plumb::Device& device, PipelineCase& pageable)
      : x_(pinned(device, pageable.tensors().x)), y_(pinned(device, pageable.tensors().y)) {
    tensors_ = pageable.tensors();
    tensors_.x = x_;
    tensors_.y = y_;
  }
  const plumb::ConvTensors& tensors() const { return tensors_; }
  /// For tensors without gaps.
  void read_back(PipelineCase& pageable) const {
    std::memcpy(pageable.tensors().y.data(), y_.data(), bytes(y_));
  }

 private:
  static std::size_t bytes(const plumb::ConstTensorView& view) {
    return static_cast<std::size_t>(plumb::element_count(view.extents())) *
           plumb::size_in_bytes(view.dtype());
  }
  static plumb::Tensor pinned(const plumb::Device& device, const plumb::ConstTensorView& from) {
    plumb::Tensor tensor(device, from.dtype(), from.extents(), from.strides(),
                         plumb::Memory::pinned_host);
    std::memcpy(tensor.data(), from.data(), bytes(from));
    return tensor;
  }

  plumb::Tensor x_, y_;
  plumb::ConvTensors tensors_;
};

}  // namespace plumb_test
