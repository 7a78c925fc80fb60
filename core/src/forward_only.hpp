// The one sentence about algorithms without a gradient of their own.
#pragma once

#include "plumb/conv.hpp"

namespace plumb {

/// Yes to a forward convolution; `direction` to the two backward ones.
Support forward_only(const ConvProblem& problem);

}  // namespace plumb
