// The time to expect of kernels of windows, from what the model says of their tiles
// (window_model.hpp).
#pragma once

#include "cuda_kernels/few_channels/windows.hpp"

namespace plumb::cuda {

/// The time to expect of few_channels/ where the model predicts so much for all tiles; `tall`: of
/// eight rows of outputs a warp.
double few_channels_seconds(const ConvProblem& problem, const WindowCosts& costs, bool tall,
                            double predicted);
/// The same of streamed_filters/.
double streamed_filters_seconds(const WindowCosts& costs, double predicted);

}  // namespace plumb::cuda
