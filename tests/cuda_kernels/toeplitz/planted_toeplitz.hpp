// Copies of the Toeplitz kernel with one mistake each.
#pragma once

#include <vector>

#include "support/planted_copy.hpp"

namespace plumb_test {

std::vector<PlantedCopy> toeplitz_copies();

}  // namespace plumb_test
