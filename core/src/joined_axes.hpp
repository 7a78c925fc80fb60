// Tensors of the same extents that operators go through element by element: their axes in the order
// of the first one's memory, joined where all of them go on without a gap. Backends take five.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>

#include "plumb/tensor.hpp"
#include "tensor_bytes.hpp"

namespace plumb {

/// One that may be written, of a view that was made of one.
inline TensorView writable(const ConstTensorView& view) {
  return {const_cast<void*>(view.data()), view.dtype(), view.extents(), view.device(),
          view.strides()};
}

/// Calls `f(views)` with the tensors in five axes; once for each index of the outermost where there
/// are six that cannot be joined. There is at least one element.
template <std::size_t count, class F>
void for_each_part(const std::array<ConstTensorView, count>& views, const F& f) {
  const ConstTensorView& first = views[0];
  std::array<int, Dims::max_rank> order{};
  int axes = 0;
  for (int i = 0; i < first.rank(); ++i)
    if (first.extent(i) > 1) order[axes++] = i;
  std::stable_sort(order.begin(), order.begin() + axes, [&](int a, int b) {
    return std::abs(first.stride(a)) > std::abs(first.stride(b));
  });
  // Of each joined axis the extent, and the step in each tensor.
  std::array<std::int64_t, Dims::max_rank> extents{};
  std::array<std::array<std::int64_t, Dims::max_rank>, count> steps{};
  int rank = 0;
  for (int i = 0; i < axes; ++i) {
    const std::int64_t extent = first.extent(order[i]);
    bool continues = rank > 0;
    for (std::size_t v = 0; v < count; ++v)
      continues = continues && steps[v][rank - 1] == extent * views[v].stride(order[i]);
    if (!continues) extents[rank++] = 1;
    extents[rank - 1] *= extent;
    for (std::size_t v = 0; v < count; ++v) steps[v][rank - 1] = views[v].stride(order[i]);
  }
  const int skipped = std::max(rank - 5, 0);
  for (std::int64_t outer = 0; outer < (skipped ? extents[0] : 1); ++outer) {
    std::array<ConstTensorView, count> parts;
    for (std::size_t v = 0; v < count; ++v) {
      Extents part{1, 1, 1, 1, 1};
      Strides strides{1, 1, 1, 1, 1};
      for (int i = skipped; i < rank; ++i) {
        part[5 - rank + i] = extents[i];
        strides[5 - rank + i] = steps[v][i];
      }
      const std::int64_t offset = skipped ? outer * steps[v][0] : 0;
      parts[v] = ConstTensorView(moved(views[v].data(), offset, views[v].dtype()), views[v].dtype(),
                                 part, views[v].device(), strides);
    }
    f(parts);
  }
}

}  // namespace plumb
