// Convolutions whose vectors run over filters.
#pragma once

#include "plumb/conv.hpp"

namespace plumb {

/// "cpu.conv.channels.fp32": README.md says what it does.
extern const ConvAlgorithm conv_channels_fp32;
/// "cpu.conv.channels.fp64": the same in doubles.
extern const ConvAlgorithm conv_channels_fp64;

}  // namespace plumb
