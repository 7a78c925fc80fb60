// A convolution as the kernel's warps see it, a block's shared memory, and its share of the work.
#pragma once

#include <cstdint>

#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/tensor_copy.cuh"
#include "cuda_kernels/wide/wide.hpp"

namespace plumb::cuda {

/// Mistakes that tests plant in the kernel; `none` everywhere else.
enum class WideFault {
  none,
  wrong_swizzle,  ///< filters are packed without the swizzle
  stale_stage,    ///< a tile's last step takes the pixels that its stage had before
  lost_split,     ///< the last split is not added
};

inline constexpr int wide_consumers = 256, wide_threads = wide_consumers + 128;

/// One axis: w, h, d.
struct WideAxis {
  int extent, taps, stride, dilation, before;
  Divisor<int> outputs;
  std::int64_t x_step, y_step;  ///< in elements
};

/// An output pixel by its coordinates.
struct WidePixel {
  int n, at[3];  ///< q, p, z
};

template <class Of>
struct WideParams {
  using Stored = Of;

  CUtensorMap map;
  const Stored* x;
  const char* filters;  ///< packed
  Stored* y;
  float* sums;  ///< of splits, pixels and filters: splits × pixels × rows; null where there is one
  Epilogue<Stored> epilogue;
  WideAxis axis[3];
  std::int64_t x_n, y_n, y_k;  ///< strides in elements
  int axes;                    ///< of the map
  int c, k, rows, channel_blocks, steps, splits;
  int pixels, works;
  Divisor<int> n_tiles, m_groups;
  bool gathers;           ///< x is not aligned, and threads copy it element by element
  bool vectors;           ///< eight filters' outputs of a pixel are 16 aligned bytes of y
  bool lays_out_filters;  ///< outputs of a pixel lie side by side
  bool repairs;           ///< zeros of the padding may have met Inf

  __device__ WidePixel pixel(int number) const {
    const auto [above, q] = axis[0].outputs.divide(number);
    const auto [planes, p] = axis[1].outputs.divide(above);
    const auto [n, z] = axis[2].outputs.divide(planes);
    return {n, {q, p, z}};
  }
  /// Where a pixel's outputs begin, in elements from y.
  __device__ std::int64_t y_of(const WidePixel& of) const {
    return of.n * y_n + of.at[2] * axis[2].y_step + of.at[1] * axis[1].y_step +
           of.at[0] * axis[0].y_step;
  }
};

/// A block's shared memory: stages of pixels and filters, what consumer warps stage, and barriers.
template <WideShape shape>
class WideShared {
 public:
  __device__ WideShared() {
    const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(dynamic_shared()));
    stages_ = dynamic_shared() + (-at & (swizzle_atom_bytes - 1));
  }
  __device__ char* pixels(int stage) const { return stages_ + stage * shape.stage_bytes(); }
  __device__ char* filters(int stage) const { return pixels(stage) + shape.a_bytes(); }
  __device__ char* staged(int warp) const {
    return stages_ + shape.stages() * shape.stage_bytes() + warp * (wide_staging_bytes / 8);
  }
  __device__ StageBarrier& full(int stage) const {
    return reinterpret_cast<StageBarrier*>(staged(8))[stage];
  }
  __device__ Mbarrier& empty(int stage) const {
    return reinterpret_cast<Mbarrier*>(staged(8))[shape.stages() + stage];
  }

 private:
  char* stages_;
};
static_assert(sizeof(StageBarrier) == 8 && sizeof(Mbarrier) == 8);

/// Where producers or consumers are in the circular buffer of stages, and the parity of its full
/// barriers there.
template <WideShape shape>
struct WideStage {
  int number = 0, parity = 0;

  __device__ void advance() {
    if (++number == shape.stages()) number = 0, parity ^= 1;
  }
};

/// A tile of a block: pixels and filters from there on, and the steps that are summed.
struct WideWorkItem {
  int pixel, filter, split, begin, end;
};

/// Calls `f` for each of the block's tiles. Filters are fastest, so that the tiles under way at one
/// time share pixels; the blocks of a cluster have neighbouring pixels and the same filters.
template <WideShape shape, class Params, class F>
__device__ void for_each_work(const Params& params, const F& f) {
  const int rank = shape.cluster > 1 ? block_of_cluster() : 0;
  const int clusters = static_cast<int>(gridDim.x) / shape.cluster;
#pragma unroll 1
  for (int work = static_cast<int>(blockIdx.x) / shape.cluster; work < params.works;
       work += clusters) {
    const auto [above, n_tile] = params.n_tiles.divide(work);
    const auto [split, m_group] = params.m_groups.divide(above);
    WideWorkItem item{.pixel = (m_group * shape.cluster + rank) * shape.m,
                      .filter = n_tile * shape.n,
                      .split = split,
                      .begin = 0,
                      .end = params.steps};
    if (params.splits > 1) {
      item.begin = first_step(split, params.splits, params.steps);
      item.end = first_step(split + 1, params.splits, params.steps);
    }
    f(item);
  }
}

}  // namespace plumb::cuda
