// Copies of the kernel of wide_mma/ with one mistake each.
#pragma once

#include <vector>

#include "support/planted_copy.hpp"

namespace plumb_test {

std::vector<PlantedCopy> wide_mma_copies();

}  // namespace plumb_test
