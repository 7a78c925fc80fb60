// Backward weights on the CPU: the gradient of the filters, by sums of a fixed order (README.md).
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb {

/// "cpu.conv.weights.fp32" takes tensors stored as f32, f16 or bf16, and computes in fp32.
extern const ConvAlgorithm conv_weights_fp32;
/// "cpu.conv.weights.fp64" takes tensors of any dtype, and computes in fp64.
extern const ConvAlgorithm conv_weights_fp64;

}  // namespace plumb
