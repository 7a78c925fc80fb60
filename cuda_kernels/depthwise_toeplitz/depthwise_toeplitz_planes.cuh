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

/// Calls `of(at, i)` with where in shared memory each of eight neighbours lies, of planes of so
/// many rows from `first` on in each of the block's; rows and planes may end among them.
template <class Of>
__device__ void for_eight_places(const DepthwiseToeplitzCut& cut, const Divisor<int>& plane,
                                 const Divisor<int>& row, int element, int rows, int first,
                                 const Of& of) {
  auto [c, of_plane] = plane.divide(element);
  auto [h, w] = row.divide(of_plane);
  int at = cut.plane_at(c) + first + h * cut.pitch + w;
#pragma unroll
  for (int i = 0; i < eight; ++i) {
    of(at, i);
    ++at;
    if (++w < row.value()) continue;
    w = 0, at += cut.pitch - row.value();
    if (++h == rows) h = 0, at = cut.plane_at(++c) + first;
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
/// Puts them where they belong.
__device__ inline void put_eight(const Params& params, const BlockShare& share,
                                 const Shared& shared, int item, const EightElements& values) {
  const auto [image, vector] = params.x_items.divide(item);
  if (eight * vector >= share.channels * params.x_plane.value()) return;
  const int first =
      (image * params.cut.image_rows - share.first_h) * params.cut.pitch - share.first_w;
  for_eight_places(params.cut, params.x_plane, params.x_row, eight * vector, params.h.extent, first,
                   [&](int at, int i) { shared.planes[at] = values.of[i]; });
}

}  // namespace plumb::cuda::depthwise_toeplitz
