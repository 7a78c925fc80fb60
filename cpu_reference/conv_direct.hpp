// Direct convolution on the CPU with its sums in registers, vectors over pixels.
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb {

/// "cpu.conv.direct.fp32": tensors stored as f32, f16 or bf16, computed in fp32. Measured on a
/// 2-core AVX-512 machine of 233 GFLOP/s, fp32, N=500, 7x7 filters: 86x86x1 to 4 filters 150
/// GFLOP/s, 40x40x4 to 16 167, 72x72x1 to 12 145, 33x33x12 to 24 178; im2col there 40, 77, 72
/// and 95.
extern const ConvAlgorithm conv_direct_fp32;
/// "cpu.conv.direct.fp64": tensors of any dtype, computed in fp64.
extern const ConvAlgorithm conv_direct_fp64;

}  // namespace plumb
