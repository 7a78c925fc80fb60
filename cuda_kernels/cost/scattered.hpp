// What loads and stores cost whose elements do not lie side by side.
#pragma once

#include "cuda_kernels/cost/machine.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// Returns what stores take besides, in seconds, where neighbours along a row do not lie side by
/// side in y, as with channels innermost: L2 takes the parts of a sector one by one. A store has
/// the outputs of so many neighbouring filters for each pixel.
double scattered_seconds(const ConvProblem& problem, const Machine& machine,
                         double filters_of_store);

/// Returns what loads of so many elements of x take besides, in seconds, where lanes that go along
/// a row find its elements apart, as with channels innermost: each lane's part of a sector is
/// looked up by itself.
double gathered_seconds(const ConvProblem& problem, const Machine& machine, double elements);

}  // namespace plumb::cuda
