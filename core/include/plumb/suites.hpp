// Problems by name: the layers that Plumb is measured and validated on.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "plumb/export.h"
#include "plumb/problem_text.hpp"

namespace plumb {

/// "four": the two networks of the ladder, two layers each (few channels, 7x7 filters).
/// "resnet50": ResNet-50's different convolutions (He et al. 2016).
inline constexpr std::string_view suite_names[] = {"four", "resnet50"};

/// The problems of a suite for batches of N, dense NCHW, of f32. Error (invalid_argument) names
/// the suites where there is none of that name.
PLUMB_API std::vector<NamedProblem> suite(std::string_view name, std::int64_t batch);

}  // namespace plumb
