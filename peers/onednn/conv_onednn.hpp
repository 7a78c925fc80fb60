// oneDNN's convolutions as algorithms of the CPU.
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb {

extern const ConvAlgorithm onednn_conv_best, onednn_conv_nchw, onednn_conv_best_bf16;

}  // namespace plumb
