// What of a source (x, or dy in backward data) a range of targets along one axis needs, and which
// rank has it.
#pragma once

#include <cstdint>
#include <vector>

#include "cuts.hpp"

namespace plumb::mpi {

/// Neighbours in a window that lie in one part of the source, one `step` from the next: 1, -1 where
/// a boundary mirrors, 0 where it repeats an element.
struct Run {
  int part = 0;
  std::int64_t at = 0;      ///< in the window
  std::int64_t source = 0;  ///< of the first, in the whole source
  std::int64_t step = 1;
  std::int64_t count = 0;
  /// What is sent of it: one element where it is repeated.
  std::int64_t sent() const { return step == 0 ? 1 : count; }
  std::int64_t lowest() const { return step < 0 ? source - (count - 1) : source; }
};

/// The sources of targets [begin, begin + count) along one axis, and the convolution from them to
/// those: the padding that is left, around a window of `length`.
struct Window {
  std::int64_t begin = 0, count = 0;  ///< targets; in backward data they may lie in the padding
  std::int64_t length = 0;
  std::int64_t before = 0, after = 0;  ///< zeros that are no elements
  Boundary boundary = Boundary::zeros;
  std::vector<Run> runs;

  /// Whether all of it lies in `part`, as it lies there.
  bool lies_in(int part) const {
    return runs.size() == 1 && runs[0].part == part && runs[0].step == 1;
  }
};

/// The targets of a part along one axis.
struct AxisTargets {
  Window interior;            ///< its sources lie in the part; of no target where there is none
  std::vector<Window> sides;  ///< before and behind it, those that there are
  /// Of backward data with a boundary: what the padding of the whole image gets, outwards, those
  /// before the image first. Each is added to the targets that the boundary shows there.
  struct Image {
    Window window;
    std::int64_t shown = 0;  ///< the target that its first is added to
    std::int64_t step = 1;   ///< to the next one's
  };
  std::vector<Image> images;

  /// Interior and sides as one.
  Window whole;
};

/// Forward and backward weights: targets are outputs, the source is x.
AxisTargets forward_targets(const Axis& axis, int part);
/// Backward data: targets are elements of dx, the source is dy. With `folds` the boundary of an
/// axis that is not cut is made of images too, so that the order of the sums is that of one rank.
AxisTargets backward_targets(const Axis& axis, int part, bool folds);

/// Error (invalid_argument) where a window reaches beyond the neighbouring parts.
void check_halos(const Axis& axis, bool backward);

}  // namespace plumb::mpi
