// Numbers and boundaries that are given for all axes of an image, or for each.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "plumb/types.hpp"

namespace plumb::app {

/// --boundary: one name, or one an axis with commas between.
CLI::Option* add_boundary(CLI::App& command, std::vector<std::string>& names);

/// One value for all axes, or one for each of the image's `axes`, 1 to 3. UsageError, naming the
/// option, for any other number of them.
Triple along_axes(const char* option, const std::vector<std::int64_t>& values, int axes);
/// One value for every side, one for both sides along each axis, or one for each side: front, top,
/// left, back, bottom, right, of which an image has those of its axes.
Padding on_sides(const char* option, const std::vector<std::int64_t>& values, int axes);
/// Of the names that add_boundary() takes; none are zeros.
Boundaries boundaries_of(const std::vector<std::string>& names, int axes);

}  // namespace plumb::app
