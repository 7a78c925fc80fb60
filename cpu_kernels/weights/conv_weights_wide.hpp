// Backward weights on the CPU with vectors over the input's channels.
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb {

/// These are "cpu.conv.weights_wide.fp32" for tensors stored as f32, f16 and bf16, and
/// "cpu.conv.weights_wide.fp64" for any tensors.
extern const ConvAlgorithm conv_weights_wide_fp32, conv_weights_wide_fp64;

}  // namespace plumb
