// Convolution on the CPU as a product of packed filters and panels of the im2col matrix. README.md.
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb {

/// "cpu.conv.panels.fp32": tensors stored as f32, f16 or bf16, computed in fp32.
extern const ConvAlgorithm conv_panels_fp32;
/// "cpu.conv.panels.fp64": tensors of any dtype, computed in fp64.
extern const ConvAlgorithm conv_panels_fp64;

}  // namespace plumb
