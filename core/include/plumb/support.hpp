// Algorithms of all backends refuse these in the same words. Users of the library do not need this
// header.
#pragma once

#include <initializer_list>

#include "plumb/algorithm.hpp"
#include "plumb/export.h"
#include "plumb/types.hpp"

namespace plumb {

/// Says yes to forward convolutions of tensors stored as one of `stored`.
PLUMB_API Support supports_dtypes(std::initializer_list<DType> stored, const ConvProblem& problem);

}  // namespace plumb
