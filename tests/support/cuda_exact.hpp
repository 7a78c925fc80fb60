// For tests on a GPU: a stream, and a convolution whose result is exact.
#pragma once

#include <cuda_runtime_api.h>

#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "plumb/plumb.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test {

struct Stream {
  cudaStream_t stream = nullptr;
  Stream() { REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess); }
  ~Stream() { cudaStreamDestroy(stream); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

/// Small integers, as many as these extents have elements.
inline std::vector<float> integers(Random& random, const plumb::Extents& extents) {
  std::vector<float> values(static_cast<std::size_t>(plumb::element_count(extents)));
  for (float& value : values) value = static_cast<float>(random.integer(-4, 4));
  return values;
}

/// What the oracle makes of x, which lies as the problem says, and of dense filters, rounded to
/// f32.
inline std::vector<float> oracle_result(const plumb::ConvProblem& problem,
                                        const std::vector<float>& x, const std::vector<float>& w) {
  std::vector<float> result;
  for (const plumb::OracleTerm& term : plumb::conv_oracle(
           problem, plumb::ConstTensorView(x.data(), problem.x_extents(), problem.x_strides),
           plumb::ConstTensorView(w.data(), problem.w_extents())))
    result.push_back(static_cast<float>(term.y));
  return result;
}

/// A dense tensor of these values on the queue's device.
inline plumb::Tensor uploaded(plumb::Queue& queue, const std::vector<float>& values,
                              const plumb::Extents& extents) {
  plumb::Tensor result(queue.device(), plumb::DType::f32, extents);
  plumb::copy(queue, plumb::ConstTensorView(values.data(), extents), result);
  queue.synchronize();
  return result;
}

/// An f32 convolution of small integers, with dense tensors on the device: its result does not
/// depend on the order of summation.
class ExactConv {
 public:
  ExactConv(plumb::Queue& queue, const plumb::ConvProblem& problem, std::uint32_t seed)
      : problem_(plumb::check(problem)),
        y_(queue.device(), plumb::DType::f32, problem_.y_extents()) {
    Random of_pixels(seed), of_filters(seed + 1);
    const std::vector<float> pixels = integers(of_pixels, problem_.x_extents());
    const std::vector<float> filters = integers(of_filters, problem_.w_extents());
    x_ = uploaded(queue, pixels, problem_.x_extents());
    w_ = uploaded(queue, filters, problem_.w_extents());
    expected_ = oracle_result(problem_, pixels, filters);
  }

  const plumb::ConvProblem& problem() const { return problem_; }

  /// Puts the convolution on the queue, into an output of NaN.
  void execute(plumb::Queue& queue, const plumb::ConvPlan& plan) const {
    forget_result(queue);
    plan.execute(queue, {.x = x_, .w = w_, .y = y_});
  }
  /// Waits for the queue.
  bool is_right(plumb::Queue& queue) const {
    std::vector<float> values(expected_.size());
    plumb::copy(queue, y_, plumb::TensorView(values.data(), problem_.y_extents()));
    queue.synchronize();
    return values == expected_;
  }

 private:
  void forget_result(plumb::Queue& queue) const {
    const std::size_t bytes = expected_.size() * sizeof(float);
    if (cudaMemsetAsync(y_.data(), 0xff, bytes, static_cast<cudaStream_t>(queue.native())) !=
        cudaSuccess)
      throw plumb::Error(plumb::ErrorCode::device_failure, "cudaMemsetAsync");
  }

  plumb::ConvProblem problem_;
  plumb::Tensor x_, w_, y_;
  std::vector<float> expected_;
};

/// What forces one algorithm.
inline plumb::ConvOptions forcing(const plumb::ConvAlgorithm& algorithm) {
  return {.algorithm = std::string(algorithm.name)};
}

}  // namespace plumb_test
