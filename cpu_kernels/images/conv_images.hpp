// Convolutions whose vectors run over images.
#pragma once

#include "plumb/conv.hpp"

namespace plumb {

/// "cpu.conv.images.fp32": README.md says what it does.
extern const ConvAlgorithm conv_images_fp32;
/// "cpu.conv.images.fp64": the same in doubles.
extern const ConvAlgorithm conv_images_fp64;

}  // namespace plumb
