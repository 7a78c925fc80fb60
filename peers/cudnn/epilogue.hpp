// What cuDNN's graph of one operation leaves to do around it, and data to time it with.
#pragma once

#include "plumb/conv.hpp"

namespace plumb::cuda::cudnn {

/// y, or dx in backward data, becomes the bias of its channels everywhere.
void spread_bias(const ConvProblem& problem, Layout layout, const void* bias, void* y,
                 void* stream);

/// y = activation(y + bias), or dx, in place; `bias` may be null.
void finish(const ConvProblem& problem, Layout layout, const void* bias, Activation activation,
            void* y, void* stream);

/// Writes zeros, the sums of nothing, to the output.
void clear(const ConvProblem& problem, void* y, void* stream);

/// Numbers evenly drawn from [-1, 1): kernels run faster, and cooler, on zeros.
void fill_randomly(DType dtype, std::int64_t count, void* data, void* stream);

}  // namespace plumb::cuda::cudnn
