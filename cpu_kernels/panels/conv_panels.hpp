// The CPU convolves by a product of packed filters and panels of the im2col matrix (README.md).
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb {

/// "cpu.conv.panels.fp32" takes tensors stored as f32, f16 or bf16, and computes in fp32.
extern const ConvAlgorithm conv_panels_fp32;
/// "cpu.conv.panels.fp64" takes tensors of any dtype, and computes in fp64.
extern const ConvAlgorithm conv_panels_fp64;

}  // namespace plumb
