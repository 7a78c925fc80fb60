// How the tensors of emulated kernels lie.
#pragma once

#include <cstdint>

#include "plumb/tensor.hpp"

namespace plumb_test::emulation {

enum class Placing { planes, channels_last, mirrored };

inline plumb::Strides strides_of(const plumb::Extents& extents, Placing layout) {
  plumb::Strides strides = plumb::dense_strides(extents);
  if (layout == Placing::planes) return strides;
  std::int64_t step = 1;
  strides[1] = 1, step = extents[1];
  for (int i = extents.rank() - 1; i >= 2; --i) strides[i] = step, step *= extents[i];
  strides[0] = step;
  if (layout == Placing::mirrored) {
    strides[1] = 2;
    for (int i = 2; i < extents.rank(); ++i) strides[i] *= -3;
    strides[0] *= 7;
  }
  return strides;
}

}  // namespace plumb_test::emulation
