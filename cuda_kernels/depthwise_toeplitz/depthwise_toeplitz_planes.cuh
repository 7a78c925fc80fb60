// Small planes that lie side by side in memory, whatever their rows are, move in vectors from the
// first of an image to the last: 7x7 of f16 have no row that begins where a word does.
#pragma once

#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_params.cuh"

namespace plumb::cuda::depthwise_toeplitz {

/// Eight neighbours in memory.
struct alignas(16) EightElements {
  std::uint16_t of[8];
};
inline constexpr int eight = 8;

/// Calls `of(c, row, column, i)` for each of eight elements, which are part of some planes.
template <class Of>
__device__ void for_eight_places(const Divisor<int>& plane, const Divisor<int>& row, int element,
                                 int rows, const Of& of) {
  auto [c, of_plane] = plane.divide(element);
  auto [h, w] = row.divide(of_plane);
#pragma unroll
  for (int i = 0; i < eight; ++i) {
    of(c, h, w, i);
    if (++w < row.value()) continue;
    w = 0;
    if (++h == rows) h = 0, ++c;
  }
}

/// Reads eight elements of the block's planes in one image.
__device__ inline EightElements read_eight(const Params& params, const BlockShare& share,
                                           const std::uint16_t* x, int item) {
  const auto [image, vector] = params.x_items.divide(item);
  if (eight * vector >= share.channels * params.x_plane.value()) return {};
  return *reinterpret_cast<const EightElements*>(
      x + ((share.n + image) * params.shape.x_n + eight * vector));
}
/// Puts them where they belong: rows and planes may end among them.
__device__ inline void put_eight(const Params& params, const BlockShare& share,
                                 const Shared& shared, int item, const EightElements& values) {
  const auto [image, vector] = params.x_items.divide(item);
  if (eight * vector >= share.channels * params.x_plane.value()) return;
  const int rows = share.end_h - share.begin_h, first = share.first_h + share.begin_h;
  const RowPlace* const of_image = shared.x_rows + image * rows - first;
  for_eight_places(params.x_plane, params.x_row, eight * vector, params.h.extent,
                   [&](int c, int h, int w, int i) {
                     const int column = w - share.first_w;
                     if (h >= first && h < first + rows && column < share.end_w)
                       shared.planes[c * params.cut.plane + of_image[h].to + column] = values.of[i];
                   });
}

}  // namespace plumb::cuda::depthwise_toeplitz
