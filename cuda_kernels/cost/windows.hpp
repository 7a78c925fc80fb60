// Kernels of windows get the time to expect from what the model predicts for their tiles
// (window_model.hpp).
#pragma once

#include "cuda_kernels/few_channels/windows.hpp"

namespace plumb::cuda {

/// Returns the time to expect of few_channels/ where the model predicts `predicted` for all tiles.
/// `tall` says that a warp makes eight rows of outputs.
double few_channels_seconds(const ConvProblem& problem, const WindowCosts& costs, bool tall,
                            double predicted);
/// Returns the time to expect of streamed_filters/ where the model predicts `predicted`.
double streamed_filters_seconds(const WindowCosts& costs, double predicted);

}  // namespace plumb::cuda
