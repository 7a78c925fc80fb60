// Copies of the kernel of pointwise/ with one mistake each.
#pragma once

#include <vector>

#include "support/planted_copy.hpp"

namespace plumb_test {

std::vector<PlantedCopy> pointwise_copies();

}  // namespace plumb_test
