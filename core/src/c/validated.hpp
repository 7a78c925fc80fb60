// The proof of one algorithm, as C has it.
#pragma once

#include "plumb/conv.hpp"
#include "plumb/plumb.h"

namespace plumb::c {

/// Of the problem with dense tensors; a null algorithm is the one that a plan takes.
plumb_validation validated(const Device& device, ConvProblem problem, const char* algorithm);

}  // namespace plumb::c
