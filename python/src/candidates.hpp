// What the library says in structures, as lists and dictionaries, of which the Python side makes
// tables.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>
#include <vector>

#include "plumb/conv.hpp"

namespace plumb::python {

namespace nb = nanobind;

/// Returns a str of the text.
inline nb::str text(std::string_view view) { return nb::str(view.data(), view.size()); }

/// Returns a list of dictionaries, one for each algorithm.
nb::list candidates_as_list(const std::vector<ConvCandidate>& candidates);

}  // namespace plumb::python
