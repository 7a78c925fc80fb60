// The CPU convolves by im2col in bounded pieces and Eigen's product.
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb {

/// "cpu.conv.im2col.fp32" takes tensors stored as f32, f16 or bf16, and computes in fp32.
extern const ConvAlgorithm conv_im2col_fp32;
/// "cpu.conv.im2col.fp64" takes tensors of any dtype, and computes in fp64.
extern const ConvAlgorithm conv_im2col_fp64;

}  // namespace plumb
