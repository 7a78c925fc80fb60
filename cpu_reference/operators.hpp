// The operators around convolution, on the CPU: parallel over OpenMP's threads, views with any
// strides, arguments checked by core. None of them allocates.
#pragma once

#include <cstdint>

#include "plumb/backend.hpp"
#include "plumb/tensor.hpp"

namespace plumb {

/// Tensors of no more elements are done before other threads would have woken.
inline constexpr std::int64_t elements_for_one_thread = 1 << 14;

void cpu_pool(const PoolLaunch& launch);
void cpu_relu(const ConstTensorView& x, const TensorView& y);
void cpu_softmax(const ConstTensorView& x, const TensorView& y);
void cpu_resize_bilinear(const ConstTensorView& x, const TensorView& y);

}  // namespace plumb
