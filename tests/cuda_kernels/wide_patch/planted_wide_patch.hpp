// Copies of the patch kernel with one mistake each.
#pragma once

#include <vector>

#include "support/planted_copy.hpp"

namespace plumb_test {

std::vector<PlantedCopy> wide_patch_copies();

}  // namespace plumb_test
