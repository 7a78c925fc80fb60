// The convolution algorithms of the CUDA backend.
#pragma once

#include <span>

#include "plumb/algorithm.hpp"

namespace plumb::cuda {

/// In order of preference: among equal estimates, the first wins.
std::span<const ConvAlgorithm* const> conv_algorithms();

}  // namespace plumb::cuda
