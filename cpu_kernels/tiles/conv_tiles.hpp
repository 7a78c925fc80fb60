// Convolutions of bf16 by the processor's own instructions for it.
#pragma once

#include "plumb/conv.hpp"

namespace plumb {

/// "cpu.conv.tiles.bf16": README.md says what it does.
extern const ConvAlgorithm conv_tiles_bf16;

}  // namespace plumb
