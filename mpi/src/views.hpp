// Views of blocks with all five axes, and boxes of them.
#pragma once

#include <array>
#include <cstddef>

#include "plumb/tensor.hpp"
#include "windows.hpp"

namespace plumb::mpi {

/// Where the axes of a tensor of rank 3 to 5 stand in N C D H W.
inline int place_of_axis(int axis, int rank) { return axis < 2 ? axis : axis + 5 - rank; }

/// The same view in rank 5; those of rank 3 to 5 have been checked.
template <class Void>
BasicTensorView<Void> with_five_axes(const BasicTensorView<Void>& view) {
  Extents extents{1, 1, 1, 1, 1};
  Strides strides{0, 0, 0, 0, 0};
  for (int i = 0; i < view.rank(); ++i) {
    extents[place_of_axis(i, view.rank())] = view.extent(i);
    strides[place_of_axis(i, view.rank())] = view.stride(i);
  }
  // Along axes of extent 1 strides are as a dense view has them, where they take part in nothing.
  for (int i = 3; i >= 0; --i)
    if (extents[i] == 1) strides[i] = extents[i + 1] * strides[i + 1];
  return {view.data(), view.dtype(), extents, view.device(), strides};
}

/// Elements [begin, begin + count) along an axis, `step` from one to the next (0: the first again).
template <class Void>
BasicTensorView<Void> run_of_view(const BasicTensorView<Void>& view, int axis, std::int64_t begin,
                                  std::int64_t count, std::int64_t step = 1) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  Extents extents = view.extents();
  Strides strides = view.strides();
  const std::int64_t offset =
      begin * strides[axis] * static_cast<std::int64_t>(size_in_bytes(view.dtype()));
  extents[axis] = count;
  strides[axis] *= step;
  return {static_cast<Byte*>(view.data()) + offset, view.dtype(), extents, view.device(), strides};
}

}  // namespace plumb::mpi
