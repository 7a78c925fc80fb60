// CUDA has the operators around convolution that nn.hpp and backend.hpp define: each puts one
// kernel on the stream that `stream` stands for. The caller has checked the arguments; an operator
// throws Error (device_failure) where the launch fails.
#pragma once

#include "plumb/backend.hpp"

namespace plumb::cuda {

void pad(const PadLaunch& call, void* stream);
void join_phases(const PhasesLaunch& call, void* stream);
void add(const AddLaunch& call, void* stream);
void sum_channels(const SumLaunch& call, void* stream);
void relu_backward(const ConstTensorView& y, const ConstTensorView& dy, const TensorView& dx,
                   void* stream);
void pool(const PoolLaunch& call, void* stream);
void relu(const ConstTensorView& x, const TensorView& y, void* stream);
void softmax(const ConstTensorView& x, const TensorView& y, void* stream);
void resize_bilinear(const ConstTensorView& x, const TensorView& y, void* stream);
void pool_backward(const PoolBackwardLaunch& call, void* stream);
void resize_bilinear_backward(const ConstTensorView& dy, const TensorView& dx, void* stream);
void softmax_cross_entropy(const CrossEntropyLaunch& call, void* stream);
void sgd_step(const SgdLaunch& call, void* stream);

}  // namespace plumb::cuda
