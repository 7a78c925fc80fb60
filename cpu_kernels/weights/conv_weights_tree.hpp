// Backward weights on the CPU in the order that is specified for reproducible sums.
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb {

/// These are "cpu.conv.weights_tree.fp32" for tensors stored as f32, f16 and bf16, and
/// "cpu.conv.weights_tree.fp64" for any tensors. They are chosen where ConvOptions::reproducible
/// asks for them: in other orders sums are a little faster.
extern const ConvAlgorithm conv_weights_tree_fp32, conv_weights_tree_fp64;

}  // namespace plumb
