// A covering array: few cases in which every three values of the parameters meet.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "plumb/plumb.hpp"

namespace plumb_test {

/// The parameters of a problem at their edges; `levels` names the values of each. Sizes of the
/// image and what goes with the filter are relative to it.
struct Parameter {
  std::string_view name;
  std::vector<std::string_view> levels;
};
const std::vector<Parameter>& parameters();

/// A level for each parameter.
using Assignment = std::vector<int>;

/// The case that the levels make. Error (invalid_argument) where check() refuses it, where one of
/// them has no effect (a boundary that no window sees), and where it is pooled and accumulated.
plumb::ValidationCase case_of(const Assignment& levels);

/// Triples of levels of three different parameters.
struct Triples {
  std::int64_t all = 0;
  std::int64_t possible = 0;  ///< that some case has
  std::int64_t covered = 0;   ///< by the cases
};

/// Cases for all the triples that are possible, the same on every machine, each of no more than
/// `max_products` multiplications.
std::vector<Assignment> covering_array(double max_products);

/// Counts anew, from nothing but the cases and what case_of() takes.
Triples count_triples(const std::vector<Assignment>& cases);

}  // namespace plumb_test
