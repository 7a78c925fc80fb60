// Copies of the kernel of grouped/ with one mistake each.
#pragma once

#include <vector>

#include "support/planted_copy.hpp"

namespace plumb_test {

std::vector<PlantedCopy> grouped_copies();

}  // namespace plumb_test
