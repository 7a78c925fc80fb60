// Direct convolution on the CPU keeps sums in registers, with vectors over output positions
// (README.md).
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb {

/// "cpu.conv.direct.fp32" takes tensors stored as f32, f16 or bf16, computes in fp32, and fuses
/// pooling.
extern const ConvAlgorithm conv_direct_fp32;
/// "cpu.conv.direct.fp64" takes tensors of any dtype, and computes in fp64.
extern const ConvAlgorithm conv_direct_fp64;

}  // namespace plumb
