// Direct convolution on the CPU: sums in registers, vectors over output positions. README.md.
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb {

/// "cpu.conv.direct.fp32": tensors stored as f32, f16 or bf16, computed in fp32. Fuses pooling.
extern const ConvAlgorithm conv_direct_fp32;
/// "cpu.conv.direct.fp64": tensors of any dtype, computed in fp64.
extern const ConvAlgorithm conv_direct_fp64;

}  // namespace plumb
