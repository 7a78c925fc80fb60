// A convolution as the kernel's blocks see it, a block's shared memory, and its tile.
#pragma once

#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/wide/wide_params.cuh"
#include "cuda_kernels/wide_mma/wide_mma.hpp"

namespace plumb::cuda {

/// What wide's kernels are told, of which tensor map and splits have no part here, and x as it is
/// read: as it lies, or repacked.
template <class Of>
struct WideMmaParams : WideParams<Of> {
  const char* from = nullptr;  ///< at a multiple of 16 bytes, as all pixels are
  std::int64_t image_bytes = 0, axis_bytes[3] = {};  ///< from one to the next
  int extent[3] = {};                                ///< w, h, d
};

/// A block's shared memory: stages of pixels and filters, and the places of the tile's pixels. When
/// all stages have been multiplied they are where warps stage outputs.
template <WideMmaShape shape>
class WideMmaShared {
 public:
  static constexpr int filters_at = shape.m * swizzle_row_bytes;
  static constexpr int staging_bytes = 2 << 10;  ///< of a warp
  static_assert(shape.threads() / 32 * staging_bytes <= shape.places_at());

  __device__ char* stage(int number) const {
    return dynamic_shared() + number * shape.stage_bytes();
  }
  __device__ char* staged(int warp) const { return dynamic_shared() + warp * staging_bytes; }
  __device__ WideMmaPlace& place(int row) const {
    return reinterpret_cast<WideMmaPlace*>(dynamic_shared() + shape.places_at())[row];
  }
};

/// A block's tile: pixels and a group's filters from there on, and the steps that it sums. Filters
/// are fastest, so that the tiles under way at one time share pixels.
struct WideMmaTile {
  int pixel, group, filter, split, begin, end;

  template <class Params>
  __device__ WideMmaTile(const Params& params, const WideMmaShape& shape) {
    const auto [above, n_tile] = params.n_tiles.divide(static_cast<int>(blockIdx.x));
    const auto [of_splits, m_tile] = params.m_tiles.divide(above);
    const auto [of_group, in_group] = params.of_group.divide(n_tile);
    pixel = m_tile * shape.m, group = of_group, filter = in_group * shape.n, split = of_splits;
    begin = 0, end = params.steps;
    if (params.splits > 1) {
      begin = first_step(split, params.splits, params.steps);
      end = first_step(split + 1, params.splits, params.steps);
    }
  }
};

}  // namespace plumb::cuda
