// A copy of an algorithm with one mistake in its kernel.
#pragma once

#include <string_view>

#include "plumb/algorithm.hpp"

namespace plumb_test {

struct PlantedCopy {
  std::string_view mistake;  ///< empty: none
  plumb::ConvAlgorithm algorithm;
};

}  // namespace plumb_test
