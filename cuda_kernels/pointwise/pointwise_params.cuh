// A slice of the batch as the kernel sees it, and a warp's share of the work.
#pragma once

#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/pointwise/pointwise.hpp"
#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/mma.cuh"

namespace plumb::cuda {

/// A PointwiseClass of the host, as types.
template <class StoredType, int of_products>
struct PointwiseArithmetic {
  using Stored = StoredType;
  static constexpr PointwiseClass host{dtype_of_stored<Stored>, of_products};
  static constexpr bool splits = host.splits(), is_tf32 = host.stored == DType::f32;
  static constexpr int vector = host.vector(), unit = host.unit(), pixels = host.pixels();
  static constexpr int batch_units = host.batch_units(), planes = host.planes();
  static constexpr int m16_tiles = pixels / 16;
};
using PointwiseFp16 = PointwiseArithmetic<__half, 1>;
using PointwiseBf16 = PointwiseArithmetic<__nv_bfloat16, 1>;
using PointwiseTf32 = PointwiseArithmetic<float, 1>;
using PointwiseTf32x3 = PointwiseArithmetic<float, 3>;

/// PointwisePixels with offsets of 32 bits, and the pixels of a tile that a lane has.
struct PointwiseOffsets {
  static constexpr int max_axes = PointwisePixels::max_axes;
  Divisor<int> extent[max_axes - 1];
  int x_step[max_axes], y_step[max_axes];
  int pixels;    ///< of all
  int apart;     ///< 1: a lane has neighbours; 8: lanes have, whose accesses then meet in sectors
  bool in_rows;  ///< the pixels of a lane lie along the innermost axis

  PointwiseOffsets(const PointwisePixels& of, const PointwiseClass& arithmetic, bool neighbours)
      : pixels(static_cast<int>(of.count())),
        apart(neighbours ? 1 : 8),
        in_rows(of.axes == 1 ||
                of.extent[0] % (neighbours ? arithmetic.vector() : arithmetic.pixels()) == 0) {
    for (int i = 0; i < max_axes; ++i) {
      x_step[i] = static_cast<int>(of.x_step[i]), y_step[i] = static_cast<int>(of.y_step[i]);
      if (i + 1 < max_axes) extent[i] = Divisor<int>(of.extent[i]);
    }
  }
  /// Where a pixel lies, in elements of a tensor whose steps are `step`.
  __device__ int at(int pixel, const int (&step)[max_axes]) const {
    const auto [above, inner] = extent[0].divide(pixel);
    const auto [outer, middle] = extent[1].divide(above);
    return inner * step[0] + middle * step[1] + outer * step[2];
  }
  __device__ int of_x(int pixel) const { return at(pixel, x_step); }
};

/// A lane's pixels of a tile.
template <class Arithmetic>
struct PointwiseLane {
  static constexpr int vector = Arithmetic::vector;
  const PointwiseOffsets& offsets;
  int first = 0;  ///< the lane's first pixel
  int there = 0;  ///< how many of its pixels there are, if it is below `vector`

  __device__ explicit PointwiseLane(const PointwiseOffsets& of) : offsets(of) {}
  /// Turns to a tile, which may be behind the last.
  __device__ void at(int tile, int lane) {
    const int group = lane / 4;
    first = tile * Arithmetic::pixels + (offsets.apart == 1 ? vector * group : group);
    const int left = offsets.pixels - first;
    there = offsets.apart == 1 ? left : (left + 7) >> 3;
  }
  __device__ int pixel(int i) const { return first + i * offsets.apart; }
  /// Finds where its pixels lie.
  __device__ void places(const int (&step)[PointwiseOffsets::max_axes], int (&to)[vector]) const {
    to[0] = offsets.at(first, step);
    if (offsets.in_rows) {
#pragma unroll
      for (int i = 1; i < vector; ++i) to[i] = to[0] + i * offsets.apart * step[0];
    } else {
#pragma unroll
      for (int i = 1; i < vector; ++i) to[i] = offsets.at(pixel(i), step);
    }
  }
};

template <class Of>
struct PointwiseParams {
  using Arithmetic = Of;
  using Stored = typename Of::Stored;

  const Stored* x;
  const char* filters;  ///< packed
  Stored* y;
  Epilogue<Stored> epilogue;
  PointwiseOffsets offsets;
  int tiles;                   ///< of the slice
  int c, k, x_c, y_k;          ///< channels and filters, and from one to the next in elements
  int batches, units, chunks;  ///< of PointwiseFilters
  int chunk_bytes;
  const float* dense;  ///< where they are split: the filters as they were
  int group_chunks;
  Divisor<int> groups;
  Divisor<int> warps_n;
  int blocks;   ///< of a group
  int warps_m;  ///< tiles that a block has at a time
  PointwiseOutput output;
  Fragment zero;  ///< PointwiseFragments::take()
};

/// A block's shared memory: the packed filters of its chunks, and their biases in fp32, so that a
/// lane reads those of its filters together.
template <int n8_tiles>
class PointwiseShared {
 public:
  __device__ explicit PointwiseShared(int group_bytes) : biases_(dynamic_shared() + group_bytes) {}

  __device__ char* filters() const { return dynamic_shared(); }
  /// Of the two neighbouring filters that a lane with this t has in each tile of the block's chunk.
  __device__ float2* biases(int chunk, int t) const {
    return reinterpret_cast<float2*>(biases_) + (chunk * 4 + t) * n8_tiles;
  }

 private:
  char* biases_;
};

/// What a warp has: every `tile_step`-th tile of pixels from `tile` on, and every `chunk_step`-th
/// chunk of its block from `chunk` on. Tiles that are neighbours are those of other blocks, so that
/// the last ones are shared out to as many multiprocessors as there are.
struct PointwiseShare {
  int first_chunk, chunks;  ///< of the block
  int tile, tile_step, chunk, chunk_step;

  template <class Params>
  __device__ explicit PointwiseShare(const Params& params) {
    // The same for all lanes, and for the compiler too.
    const int warp = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 32, 0);
    const auto [block, group] = params.groups.divide(static_cast<int>(blockIdx.x));
    const auto [of_tile, of_chunk] = params.warps_n.divide(warp);
    first_chunk = group * params.group_chunks;
    chunks = min(params.group_chunks, params.chunks - first_chunk);
    tile = of_tile * params.blocks + block, tile_step = params.blocks * params.warps_m;
    chunk = of_chunk, chunk_step = params.warps_n.value();
    // Without a chunk it goes through no tile.
    if (chunk >= chunks) tile = params.tiles;
  }
};

}  // namespace plumb::cuda
