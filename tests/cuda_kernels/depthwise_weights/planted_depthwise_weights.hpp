// Copies of depthwise backward weights whose plans have one mistake each.
#pragma once

#include <vector>

#include "support/planted_copy.hpp"

namespace plumb_test {

std::vector<PlantedCopy> depthwise_weights_copies();

}  // namespace plumb_test
