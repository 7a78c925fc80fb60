#include "fold.hpp"

#include <algorithm>

#include "tensor_bytes.hpp"

namespace plumb {
namespace {

std::int64_t& of_axis(Triple& triple, int axis) {
  return axis == 2 ? triple.d : axis == 3 ? triple.h : triple.w;
}

/// Folds along one axis, of which `image` elements from `before` on are the image's.
class AxisFold {
 public:
  AxisFold(BackendQueue& queue, const TensorView& padded, int axis, std::int64_t before,
           std::int64_t image, Boundary boundary)
      : queue_(queue),
        padded_(padded),
        axis_(axis),
        before_(before),
        image_(image),
        boundary_(boundary) {}

  void run() const {
    if (boundary_ == Boundary::zeros) return;
    add_outwards(-1, -before_ - 1, -1);
    add_outwards(image_, padded_.extent(axis_) - before_, 1);
  }

 private:
  std::int64_t shown(std::int64_t at) const { return boundary_index(boundary_, at, image_); }

  /// Coordinates from `at` up to `end`, as long runs as are images of neighbours.
  void add_outwards(std::int64_t at, std::int64_t end, std::int64_t step) const {
    while (at != end) {
      std::int64_t count = 1, change = 0;
      if (at + step != end) change = shown(at + step) - shown(at);
      if (change == 1 || change == -1)
        while (at + count * step != end && shown(at + count * step) == shown(at) + count * change)
          ++count;
      queue_.add({.x = run_of(at, step, count), .y = run_of(shown(at), change, count)});
      at += count * step;
    }
  }

  TensorView run_of(std::int64_t at, std::int64_t step, std::int64_t count) const {
    Extents extents = padded_.extents();
    Strides strides = padded_.strides();
    extents[axis_] = count;
    const std::int64_t first = (at + before_) * strides[axis_];
    strides[axis_] *= count > 1 ? step : 1;
    return TensorView(moved(padded_.data(), first, padded_.dtype()), padded_.dtype(), extents,
                      padded_.device(), strides);
  }

  BackendQueue& queue_;
  const TensorView& padded_;
  int axis_;
  std::int64_t before_, image_;
  Boundary boundary_;
};

}  // namespace

void fold(BackendQueue& queue, const TensorView& padded, const Extents& image, const Triple& before,
          const Boundaries& boundary) {
  TensorView rest = padded;
  const Boundary boundaries[] = {boundary.d, boundary.h, boundary.w};
  for (int axis = 4; axis >= 2; --axis) {
    Triple begin = before;
    AxisFold(queue, rest, axis, of_axis(begin, axis), image[axis], boundaries[axis - 2]).run();
    // The axes behind see the image alone along this one.
    rest = slice(rest, axis, of_axis(begin, axis), image[axis]);
  }
}

std::int64_t folded_at_most(Boundary boundary, std::int64_t extent, std::int64_t before,
                            std::int64_t after) {
  switch (boundary) {
    case Boundary::zeros: return 1;
    case Boundary::clamp: return 1 + (extent == 1 ? before + after : std::max(before, after));
    default: break;
  }
  // An element is shown once a period, and twice where every second one is mirrored.
  const std::int64_t period =
      boundary == Boundary::reflect ? std::max<std::int64_t>(extent - 1, 1) : extent;
  return 1 + (before + period - 1) / period + (after + period - 1) / period;
}

}  // namespace plumb
