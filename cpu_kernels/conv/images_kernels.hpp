// What the functions that put images side by side, a lane of a vector for each, get
// (images/images.inl). It is plain data, because sources for several instruction sets share it.
#pragma once

#include <cstdint>

#include "plumb/types.hpp"

namespace plumb {

/// The same row of some neighbouring images.
struct ImagesRow {
  DType dtype;
  const void* from;  ///< the first element of the first image
  std::int64_t images, image_step;
  std::int64_t columns, column_step;
};

/// The functions of one instruction set.
template <class Real>
struct ImagesKernels {
  std::int64_t lanes;
  /// Writes to[column * lanes + image], with zeros for the lanes behind the last image.
  void (*interleave)(const ImagesRow&, Real* to);
};

}  // namespace plumb
