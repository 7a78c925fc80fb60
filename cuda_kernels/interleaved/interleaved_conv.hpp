// A convolution as the interleaved kernels see it. Backward data with strides is one of dy whose
// outputs lie closer to each other than the pixels that they read: between two pixels of dy there
// are `up` of dx, and each of those meets every up-th tap, in reverse. So phases of strides are
// rows and columns of outputs of one filter, which the layouts have anyway (InterleavedLayout), and
// are written side by side.
#pragma once

#include "cuda_kernels/primitives/host_device.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// The taps of outputs along one axis. Outputs are counted from a position's first, and pixels of x
/// from the first that any output of the position reads.
struct TapAxis {
  int taps = 1;       ///< of a filter
  int first = 0;      ///< of the first output at the first pixel
  int of_output = 0;  ///< taps from an output to the next: back by the stride, or on by one
  int of_pixel = 1;   ///< taps from a pixel to the next: on by one, or back by `up`

  /// Returns the tap of an output at a pixel; outside of [0, taps) there is none.
  PLUMB_HOST_DEVICE int tap(int output, int pixel) const {
    return first + output * of_output + pixel * of_pixel;
  }
  /// Outputs for each pixel.
  int up() const { return of_pixel < 0 ? -of_pixel : 1; }
  /// Returns how many pixels lie between the first ones of outputs that are so many apart.
  int pixels_between(int outputs) const { return outputs * -of_output / of_pixel; }
  /// Returns how many pixels are read by so many outputs.
  int pixels_of(int outputs) const {
    const int of_last = (outputs - 1) * of_output;
    return of_pixel > 0 ? taps - of_last : (first + of_last) / -of_pixel + 1;
  }
  /// Whether one of so many outputs reads the pixel.
  bool reads(int outputs, int pixel) const;
};

struct InterleavedConv {
  /// A forward convolution of the same tensors. In backward data with strides its own is 1, and its
  /// padding, which may be negative, is that of dy under dx, and behind it whatever gives dx its
  /// extents.
  ConvProblem problem;
  TapAxis h, w;

  explicit InterleavedConv(const ConvProblem& whole);

  bool is_gradient() const { return h.up() * w.up() > 1; }
};

}  // namespace plumb::cuda
