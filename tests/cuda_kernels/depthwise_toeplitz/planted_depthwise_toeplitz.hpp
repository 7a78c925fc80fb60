// Copies of the kernel of depthwise_toeplitz/ with one mistake each.
#pragma once

#include <vector>

#include "support/planted_copy.hpp"

namespace plumb_test {

std::vector<PlantedCopy> depthwise_toeplitz_copies();

}  // namespace plumb_test
