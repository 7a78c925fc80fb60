// Copies of the Toeplitz kernel with one mistake each.
#pragma once

#include <string_view>
#include <vector>

#include "plumb/algorithm.hpp"

namespace plumb_test {

struct ToeplitzCopy {
  std::string_view mistake;  ///< empty: none
  plumb::ConvAlgorithm algorithm;
};

std::vector<ToeplitzCopy> toeplitz_copies();

}  // namespace plumb_test
