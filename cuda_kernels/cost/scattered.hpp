// What stores cost whose outputs do not lie side by side.
#pragma once

#include "cuda_kernels/cost/machine.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// Returns what stores take besides, in seconds, where neighbours along a row do not lie side by
/// side in y, as with channels innermost: L2 takes the parts of a sector one by one. A store has
/// the outputs of so many neighbouring filters for each pixel.
double scattered_seconds(const ConvProblem& problem, const Machine& machine,
                         double filters_of_store);

}  // namespace plumb::cuda
