// Copies of the kernel of octet_weights/ with one mistake each.
#pragma once

#include <vector>

#include "support/planted_copy.hpp"

namespace plumb_test {

std::vector<PlantedCopy> octet_weights_copies();

}  // namespace plumb_test
