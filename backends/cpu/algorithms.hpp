// The CPU's convolution algorithms.
#pragma once

#include <span>

#include "plumb/algorithm.hpp"

namespace plumb {

/// In order: among algorithms whose estimates are equal, the first wins.
std::span<const ConvAlgorithm* const> cpu_conv_algorithms();

}  // namespace plumb
