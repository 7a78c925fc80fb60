// An axis of an image that windows of pooling lie along.
#pragma once

#include "kokkos_kernels/image.hpp"

namespace plumb::kokkos {

struct PoolAxis : Axis {
  std::int64_t after, outputs;

  PoolAxis(std::int64_t extent_, std::int64_t taps_, std::int64_t stride_, std::int64_t dilation_,
           std::int64_t before_, std::int64_t after_, std::int64_t outputs_)
      : Axis(extent_, taps_, stride_, dilation_, before_, outputs_),
        after(after_),
        outputs(outputs_) {}

  /// How many of a window's places its average is divided by.
  KOKKOS_INLINE_FUNCTION std::int64_t places(std::int64_t output, bool count_padding) const {
    const Taps counted =
        count_padding ? taps_inside(first(output) + before, before + extent + after, taps, dilation)
                      : taken(first(output));
    return counted.end - counted.begin;
  }
};

}  // namespace plumb::kokkos
