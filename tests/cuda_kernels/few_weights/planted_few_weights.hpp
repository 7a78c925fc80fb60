// Copies of the kernel of few_weights/ with one mistake each.
#pragma once

#include <vector>

#include "support/planted_copy.hpp"

namespace plumb_test {

std::vector<PlantedCopy> few_weights_copies();

}  // namespace plumb_test
