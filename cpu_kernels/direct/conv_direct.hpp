// Direct convolution on the CPU with its sums in registers, vectors over pixels.
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb {

/// "cpu.conv.direct.fp32": tensors stored as f32, f16 or bf16, computed in fp32. Fuses pooling.
/// docs/kernels/cpu.md has what it was measured at.
extern const ConvAlgorithm conv_direct_fp32;
/// "cpu.conv.direct.fp64": tensors of any dtype, computed in fp64.
extern const ConvAlgorithm conv_direct_fp64;

}  // namespace plumb
