// Copies of the wide kernel with one mistake each.
#pragma once

#include <string_view>
#include <vector>

#include "plumb/algorithm.hpp"

namespace plumb_test {

struct WideCopy {
  std::string_view mistake;  ///< empty: none
  plumb::ConvAlgorithm algorithm;
};

std::vector<WideCopy> wide_copies();

}  // namespace plumb_test
