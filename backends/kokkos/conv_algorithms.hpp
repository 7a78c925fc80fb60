// The convolution algorithms of the Kokkos backend.
#pragma once

#include <span>

#include "plumb/algorithm.hpp"

namespace plumb::kokkos {

/// In order of preference: among equal estimates, the first wins.
std::span<const ConvAlgorithm* const> conv_algorithms();

}  // namespace plumb::kokkos
