// What a gradient is in terms of forward convolutions, as geometry alone.
//
// Along one axis a convolution adds x[p stride + r dilation - before] w[r] to y[p]. Of a pixel h of
// dx that makes the sum of dy[p] w[r] over p stride + r dilation - before = h. Pixels of one phase,
// h mod stride, have taps in common, a step apart, and consecutive ones read consecutive dy: they
// are one forward convolution of dy, with those taps in reverse and filters for channels. Of a
// weight r it makes the sum of dy[p] x[r dilation + p stride - before]: a forward convolution of x
// with dy as the filter, whose dilation is the stride and whose stride is the dilation.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plumb/conv.hpp"

namespace plumb {

/// Taps of the filters that a convolution of dy takes, of rank 5 as all are here: `first` of them
/// at an offset of w, and the steps to the next, which are negative.
struct LoweredTaps {
  std::int64_t first = 0;
  std::int64_t taps[3] = {1, 1, 1};   ///< along D, H and W
  std::int64_t steps[3] = {1, 1, 1};  ///< in taps
};

/// One forward convolution and where its tensors begin in those of the whole, in elements.
struct LoweredConv {
  ConvProblem problem;  ///< forward, without boundaries
  std::int64_t image = 0, filters = 0, bias = 0, output = 0;
  LoweredTaps taps = {};  ///< of backward data, whose problem has them dense, C K/G T R S
};

/// Elements of the output, of rank 5, that are sums of nothing.
struct LoweredZeros {
  Extents extents;
  Strides strides;
  std::int64_t output = 0;
};

/// Between them they write each element of the output once.
struct ConvLowering {
  std::vector<LoweredConv> convolutions;
  std::vector<LoweredZeros> zeros;
};

/// The same backward data with strides by which no two taps meet one pixel. Along an axis with one
/// output the filter has one place and the stride no say: as long as the filter reaches, it makes
/// each tap a phase. A filter as large as its image, which with stride 1 has all of its taps for
/// each pixel of dx and padding under all but one, becomes one product for each tap.
ConvProblem with_taps_apart(ConvProblem problem);

/// Of a checked problem that is not forward, has an image and no boundary other than zeros.
ConvLowering lower(const ConvProblem& problem);

/// Backward data with strides as one forward convolution, which reads dy once: the phases are
/// filters (Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient
/// Sub-Pixel Convolutional Neural Network", CVPR 2016). Filter (g P + a) C/G + c makes channel
/// g C/G + c at phase a of P, numbered through D, H and W. Pixel h of dx is output
/// (h + offset) / phases along its axis, at the phase that is the remainder.
struct JoinedLowering {
  ConvProblem problem;     ///< its y dense, with channels innermost where dx has them so
  std::int64_t image = 0;  ///< where its image begins in dy, in elements
  std::int64_t phases[3] = {1, 1, 1}, offset[3] = {0, 0, 0};  ///< along D, H and W

  std::int64_t phase_count() const { return phases[0] * phases[1] * phases[2]; }
  /// Whether along each axis the taps of w are one phase's, or each is a phase: none is missing.
  bool has_single_taps() const;
  /// The taps of a phase, of w's.
  LoweredTaps taps_of(const ConvProblem& whole, const std::int64_t (&phase)[3]) const;
};

/// Of a problem as for lower(); nothing where no axis has a stride, or one has dilation with it or
/// phases without a tap.
std::optional<JoinedLowering> lower_joined(const ConvProblem& problem);

}  // namespace plumb
