// What the tests of the CUDA backend share: the GPU, checked calls, and a small convolution whose
// result is exact.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <vector>

#include "plumb/plumb.hpp"
#include "support/cuda_exact.hpp"
#include "support/devices.hpp"

namespace plumb_test::cuda {

using namespace plumb;

inline Device gpu() { return plumb_test::device_or_skip("cuda"); }

inline void expect(cudaError_t status) {
  INFO(cudaGetErrorName(status));
  REQUIRE(status == cudaSuccess);
}

inline std::vector<float> counting(std::size_t count, float first) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i % 7);
  return values;
}

inline void upload(Queue& queue, const std::vector<float>& values, const Tensor& to) {
  copy(queue, ConstTensorView(values.data(), to.extents()), to);
  queue.synchronize();
}

inline std::vector<float> download(Queue& queue, const Tensor& from) {
  std::vector<float> values(static_cast<std::size_t>(element_count(from.extents())), -1.0f);
  copy(queue, from, TensorView(values.data(), from.extents()));
  queue.synchronize();
  return values;
}

/// A small convolution on small integers, whose result is exact whatever the order of summation.
struct SmallConv {
  ConvProblem problem;
  Tensor x, w, y;

  explicit SmallConv(const Device& device) {
    problem.n = 3;
    problem.c = 4;
    problem.h = problem.w = 9;
    problem.k = 5;
    problem.r = problem.s = 3;
    problem.padding = {1, 1, 1, 1};
    x = Tensor(device, DType::f32, problem.x_extents());
    w = Tensor(device, DType::f32, problem.w_extents());
    y = Tensor(device, DType::f32, problem.y_extents());
    Queue queue(device);
    fill_x(queue, 1);
    upload(queue, counting(static_cast<std::size_t>(element_count(w.extents())), -3), w);
  }
  void fill_x(Queue& queue, float first) {
    upload(queue, counting(static_cast<std::size_t>(element_count(x.extents())), first), x);
  }
  void forget_y(Queue& queue) {
    expect(cudaMemsetAsync(y.data(), 0xff, static_cast<std::size_t>(element_count(y.extents())) * 4,
                           static_cast<cudaStream_t>(queue.native())));
    queue.synchronize();
  }
  ConvTensors tensors() const { return {.x = x, .w = w, .y = y}; }
  /// What the oracle makes of x that begins with `first`.
  std::vector<float> expected(float first) const {
    const auto x_host = counting(static_cast<std::size_t>(element_count(x.extents())), first);
    const auto w_host = counting(static_cast<std::size_t>(element_count(w.extents())), -3);
    return plumb_test::oracle_result(check(problem), x_host, w_host);
  }
};

}  // namespace plumb_test::cuda
