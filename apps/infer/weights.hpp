// The weights of a network's steps on the host: drawn, or from a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infer/graph.hpp"

namespace plumb::app {

/// Of one convolution, with batch norm folded in; empty of other steps.
struct StepWeights {
  std::vector<float> filters;  ///< K C R S, dense
  std::vector<float> bias;     ///< K
};
using Weights = std::vector<StepWeights>;  ///< in the order of the steps

/// From the seed alone: normal, scaled so that activations keep their size (He et al. 2015), those
/// that are added to a residual smaller, so that sums do.
Weights random_weights(const Graph& graph, std::uint64_t seed);

/// From a safetensors file, whatever its element type: NAME.weight and NAME.bias of each
/// convolution, or NAME.weight and the batch norm behind it as torchvision names it (bn1 of conv1,
/// downsample.1 of downsample.0), which is folded in. FileError where it is no such file, a tensor
/// is missing, left over, or of other extents.
Weights read_weights(const Graph& graph, const std::string& path);

}  // namespace plumb::app
