// A network for images as a list of steps over a few buffers, whatever runs it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/plumb.hpp"

namespace plumb::app {

enum class StepKind { conv, max_pool, average_pool };

/// What a step reads, does and writes. A linear layer is a convolution of images of one pixel.
struct Step {
  std::string name;  ///< as in files of weights: "layer1.0.conv2"
  StepKind kind = StepKind::conv;
  int from = 0, to = 0;                              ///< buffers
  std::int64_t window = 1, stride = 1, padding = 0;  ///< height and width
  bool relu = false;
  bool accumulate = false;  ///< added to what the buffer holds, before the ReLU: a residual
  Extents input, output;    ///< of one image: C, H, W
};
/// "64 filters 3x3, stride 2, ReLU", for people.
std::string describe(const Step& step);

/// Buffer 0 holds the images; the last step writes one value for each class.
struct Graph {
  std::vector<Step> steps;
  std::vector<std::int64_t> buffer_elements;  ///< the most that each buffer holds of one image
  const Extents& image() const { return steps.front().input; }
  std::int64_t classes() const { return steps.back().output[0]; }
};

/// ResNet-50 (He et al. 2016) with its strides in the 3x3 convolutions, as is usual now, for square
/// images of `side` pixels, 32 or more, and 1000 classes. Batch norm is folded into the weights.
Graph resnet50(std::int64_t side);

/// The step's convolution of `n` images, in a layout.
ConvProblem problem_of(const Step& step, std::int64_t n, DType dtype, Layout layout);
PoolGeometry pool_geometry(const Step& step);

}  // namespace plumb::app
