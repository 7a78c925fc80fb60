// Taps of the filter as channels: host code, and index functions of both sides.
//
// Where x has few channels, a step's 128 bytes under one tap would be filled up with zeros, and
// where the convolution's stride is larger than the copy engine's, it cannot skip pixels. x is then
// repacked by im2col along some of the axes: a pixel of the repacked x has the channels under all
// the taps of those axes, side by side. What the kernel multiplies is then another convolution, the
// product.
#pragma once

#include <cstdint>

#include "cuda_kernels/primitives/host_device.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// A channel of the product: that of x in its group, under a tap of the folded axes.
struct WideTerm {
  int channel, tap[3];  ///< s, r, t
};

/// Which axes are folded. A group's channels of the product are numbered by t, r, s and c, the last
/// of them fastest, of which only folded axes have several.
struct WideFold {
  static constexpr int w = 1, h = 2, d = 4;  ///< bits of `axes`
  int axes = 0;
  int channels = 1;         ///< C/G
  int taps[3] = {1, 1, 1};  ///< s, r, t of folded axes

  WideFold() = default;
  WideFold(const ConvProblem& problem, int folded);
  PLUMB_HOST_DEVICE bool folds(int axis) const { return (axes >> axis & 1) != 0; }
  PLUMB_HOST_DEVICE WideTerm term(int of_product) const {
    if (axes == 0) return {of_product, {0, 0, 0}};
    const int tap = of_product / channels, row = tap / taps[0];
    return {of_product % channels, {tap % taps[0], row % taps[1], row / taps[1]}};
  }
};

/// Returns the convolution that is left to the product: a folded axis has an element for each
/// output and one tap. Strides are those of a dense x, and w and y have none.
ConvProblem wide_product(const ConvProblem& problem, const WideFold& fold);

}  // namespace plumb::cuda
