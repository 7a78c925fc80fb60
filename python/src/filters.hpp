// The filters of plumb.ndimage on images of any axes up to three: what a call of NumPy's or CuPy's
// arrays needs no conversion for is done without Python.
#pragma once

#include <array>
#include <cstdint>

#include "arrays.hpp"
#include "plumb/conv.hpp"
#include "plumb/device.hpp"

namespace plumb::python {

/// One filter: y[i] = sum of taps[j] x[i + j - before], where what lies beyond the edges of an axis
/// is what the boundary shows, and in the place of zeros `outside`.
struct Filter {
  TensorView taps = {};                     ///< of the image's axes
  std::array<std::int64_t, 3> before = {};  ///< taps that lie before the element itself
  std::array<Boundary, 3> boundary = {};    ///< of each axis
  double outside = 0;                       ///< cval
  bool accumulate = false;                  ///< it is added to y
};

/// Says whether the filter reads zeros beyond an edge, which convolutions leave out: `outside`, or
/// a tap that is not finite, is then met in a padded copy alone.
bool reads_outside(const Filter& filter);

/// Puts the filter on the queue, from x to y, of one to three axes and the same extents. `padded`,
/// of the extents of padded_extents(), is written first where it is not empty. Throws Error as
/// conv().
void run_filter(Queue& queue, const TensorView& x, const Filter& filter, const TensorView& y,
                const TensorView& padded);

/// The extents of x with what the filter reads beyond its edges, in x's order of axes.
Extents padded_extents(const TensorView& x, const Filter& filter);

}  // namespace plumb::python
