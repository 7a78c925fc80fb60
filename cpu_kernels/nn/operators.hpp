// The CPU's operators around convolution run parallel over OpenMP's threads and take views with any
// strides; core has checked their arguments. None of them allocates.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/src/parallel/parallel.hpp"
#include "plumb/backend.hpp"
#include "plumb/tensor.hpp"

namespace plumb {

/// Returns the threads for `elements` elements: one where it is done before others would have
/// woken.
inline int threads_for(std::int64_t elements) {
  constexpr std::int64_t elements_for_one_thread = 1 << 14;
  return elements > elements_for_one_thread ? available_threads() : 1;
}

/// Calls f(count, offsets...) for each run of elements of tensors of these extents, five of them,
/// by threads: a row, or a part of a long one, and where it begins in the tensor of each of the
/// strides.
template <class F, class... Tensors>
void for_each_run(const Extents& extents, const F& f, const Tensors&... strides) {
  constexpr std::int64_t longest = 1 << 13;
  const std::int64_t rows = extents[0] * extents[1] * extents[2] * extents[3];
  const std::int64_t parts = (extents[4] - 1) / longest + 1;
  parallel_for(threads_for(element_count(extents)), rows * parts, [&](std::int64_t run) {
    const std::int64_t row = run / parts, first = run % parts * longest;
    const std::int64_t index[] = {row / extents[3] / extents[2] / extents[1],
                                  row / extents[3] / extents[2] % extents[1],
                                  row / extents[3] % extents[2], row % extents[3], first};
    f(std::min(longest, extents[4] - first), index[0] * strides[0] + index[1] * strides[1] +
                                                 index[2] * strides[2] + index[3] * strides[3] +
                                                 index[4] * strides[4]...);
  });
}

/// The tiles of all images and channels, numbered through.
struct Tiles {
  std::int64_t images, channels, rows, columns;
  struct Index {
    std::int64_t image, channel, row, column;
  };
  std::int64_t count() const { return images * channels * rows * columns; }
  Index at(std::int64_t i) const {
    const std::int64_t row = i / columns, plane = row / rows;
    return {plane / channels, plane % channels, row % rows, i % columns};
  }
};

void cpu_pad(const PadLaunch& launch);
void cpu_join_phases(const PhasesLaunch& launch);
void cpu_add(const AddLaunch& launch);
void cpu_sum_channels(const SumLaunch& launch);
void cpu_pool(const PoolLaunch& launch);
void cpu_relu(const ConstTensorView& x, const TensorView& y);
void cpu_relu_backward(const ConstTensorView& y, const ConstTensorView& dy, const TensorView& dx);
void cpu_softmax(const ConstTensorView& x, const TensorView& y);
void cpu_resize_bilinear(const ConstTensorView& x, const TensorView& y);
void cpu_pool_backward(const PoolBackwardLaunch& launch);
void cpu_resize_bilinear_backward(const ConstTensorView& dy, const TensorView& dx);
void cpu_softmax_cross_entropy(const CrossEntropyLaunch& launch);
void cpu_sgd_step(const SgdLaunch& launch);

}  // namespace plumb
