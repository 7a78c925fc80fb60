// The input under a tile is written to shared memory as products want it, with zeros where there is
// no input.
#pragma once

#include <cstdint>

#include "cuda_kernels/few_channels/window_params.cuh"
#include "cuda_kernels/few_channels/window_stage.cuh"
#include "cuda_kernels/primitives/bulk_copy.cuh"
#include "cuda_kernels/primitives/max_nan.cuh"
#include "cuda_kernels/primitives/scalar.cuh"
#include "cuda_kernels/primitives/scaling.cuh"
#include "cuda_kernels/primitives/split.hpp"

namespace plumb::cuda {

/// These flags say what was met in a tile that makes its outputs be looked at again.
enum WindowFlags : int {
  met_non_finite = 1,  ///< zeros of the product may have met Inf
  met_range = 2,       ///< no scale fits: every output is summed again
  met_small = 4,       ///< values too small for their halves: small sums are summed again
};

/// The control data lie in front of a block's shared memory. What a tile finds out goes to places
/// that take turns, so that one can be cleared while the other is read.
struct WindowControl {
  CopyBarrier staged;
  CopyBarrier filled[max_window_stages];  ///< of the stages of streamed filters
  std::uint32_t left[max_window_stages];  ///< warps that have left each of these stages
  const char* packed;                     ///< where the k tiles of these stages come from
  int flags[2];
  int largest[2];  ///< bits of the largest |x|
  int members;     ///< blocks that share the tiles
  int first_k;     ///< the first filter of the group
  int exponent;    ///< exponent of the scale of the tile that is multiplied
  int filter_flags;
  int min_exponent, max_exponent;  ///< of the filters' scales
  float filter_scales[64];         ///< factors of the sums that undo these scales
  float filter_bias[64];
};
static_assert(sizeof(WindowControl) <= window_control_bytes);

/// Elements of a tile are read from a source: this one is the tensor, the other a StagedTile.
template <class Stored>
struct TensorSource {
  const Stored*
      x;  ///< row 0 of the tile's first plane of its first channel, which may lie before x
  int row, column;
};

template <class Stored>
__device__ TensorSource<Stored> tensor_source(const WindowKernelParams& params,
                                              const WindowItem& item, const Stored* x) {
  const auto& step = params.conv.x_step;
  return {x + item.volume * params.x_volume + item.first_plane * params.conv.x_step.n, step.h,
          step.w};
}

/// A row of a tile's input as it lies in the tensor.
template <class Stored>
struct TileRow {
  bool inside;         ///< whether the row lies in the volume and the image
  const Stored* from;  ///< where the tile's first column is, or would be

  __device__ TileRow(const WindowKernelParams& params, const WindowItem& item,
                     const TensorSource<Stored>& source, int tile_row) {
    const auto [planes_before, row] = params.x_rows.divide(tile_row);
    const auto [plane, channel] = params.channels.divide(planes_before);
    const int h = item.first_h + row, d = item.first_plane + plane * params.plane_step;
    inside = static_cast<unsigned>(d) < static_cast<unsigned>(params.planes) &&
             static_cast<unsigned>(h) < static_cast<unsigned>(params.conv.h);
    from = source.x + plane * params.x_plane_step + channel * params.conv.x_step.c +
           h * source.row + item.first_w * std::int64_t{source.column};
  }
};

/// Converts elements that were loaded together, by whatever type they were loaded.
template <class Stored, class Loaded, int width>
__device__ inline void to_floats(const Loaded& loaded, float (&values)[width]) {
  static_assert(sizeof(Loaded) == width * sizeof(Stored));
  const Stored* const of = reinterpret_cast<const Stored*>(&loaded);
#pragma unroll
  for (int i = 0; i < width; ++i) values[i] = convert<float>(of[i]);
}
template <class Stored, class Loaded, int count, int width>
__device__ inline void to_floats(const Loaded (&loaded)[count], float (&values)[count][width]) {
#pragma unroll
  for (int i = 0; i < count; ++i) to_floats<Stored>(loaded[i], values[i]);
}

/// Calls `use(to, two)` for all pairs of neighbours in the rows of the tile, which are zero outside
/// the image. Some lanes share a row, so that each lane pays what a row costs once for several
/// pairs.
template <class Stored, class Use>
__device__ void for_each_pair(const WindowKernelParams& params, const WindowItem& item,
                              const TensorSource<Stored>& source, Use&& use) {
  constexpr int at_once = pairs_at_once;
  using Loaded = std::conditional_t<sizeof(Stored) == 4, uint2, std::uint32_t>;
  const int bits = params.row_lanes_bits, lanes = 1 << bits;
  const int lane = static_cast<int>(threadIdx.x) & (lanes - 1), pairs = params.pitch / 2;
#pragma unroll 1
  for (int tile_row = static_cast<int>(threadIdx.x) >> bits; tile_row < params.tile_rows;
       tile_row += params.rows_at_once) {
    const auto [inside, from] = TileRow<Stored>(params, item, source, tile_row);
    const int to = tile_row * params.pitch;
#pragma unroll 1
    for (int first = lane; first < pairs; first += at_once * lanes) {
      float two[at_once][2];
      if (params.pairs_aligned) {
        Loaded loaded[at_once];
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
          const int pair = first + i * lanes, w = item.first_w + 2 * pair;
          loaded[i] = {};
          if (inside && pair < pairs && w >= 0 && w < params.conv.w)
            loaded[i] = *reinterpret_cast<const Loaded*>(from + 2 * pair);
        }
        to_floats<Stored>(loaded, two);
      } else {
        Stored loaded[at_once][2];
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
          const int pair = first + i * lanes, w = item.first_w + 2 * pair;
          const bool of_row = inside && pair < pairs;
          const Stored* const at = from + 2 * pair * source.column;
          loaded[i][0] = loaded[i][1] = convert<Stored>(0.0f);
          if (of_row && w >= 0 && w < params.conv.w) loaded[i][0] = at[0];
          if (of_row && w >= -1 && w < params.conv.w - 1) loaded[i][1] = at[source.column];
        }
        to_floats<Stored>(loaded, two);
      }
#pragma unroll
      for (int i = 0; i < at_once; ++i)
        if (first + i * lanes < pairs) use(to + 2 * (first + i * lanes), two[i]);
    }
  }
}

/// Does the same for a staged tile. An index is cheap there, so that pairs are numbered through all
/// rows and no lane need be idle.
template <class Stored, class Use>
__device__ void for_each_pair(const WindowKernelParams& params, const WindowItem& item,
                              const StagedTile<Stored>& staged, Use&& use) {
  constexpr int at_once = 4;
  using Loaded = std::conditional_t<sizeof(Stored) == 4, uint2, std::uint32_t>;
  const int end =
      params.images * params.channels.value() * params.x_rows.value() * params.pitch_pairs.value();
  const int threads = static_cast<int>(blockDim.x), first_row = item.first_h - staged.row;
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x); first < end; first += at_once * threads) {
    float two[at_once][2];
    const auto each = [&](auto&& load) {
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const auto [tile_row, pair] = params.pitch_pairs.divide(first + i * threads);
        const auto [plane, row] = params.x_rows.divide(tile_row);
        const int w = item.first_w + 2 * pair, staged_row = first_row + row;
        const bool inside = plane < staged.planes &&
                            static_cast<unsigned>(staged_row) < static_cast<unsigned>(staged.rows);
        load(i, staged(plane, staged_row) + w, w, inside);
      }
    };
    const auto in_row = [&](int w) {
      return static_cast<unsigned>(w) < static_cast<unsigned>(params.conv.w);
    };
    if (params.pairs_aligned) {
      Loaded loaded[at_once];
      each([&](int i, const Stored* from, int w, bool inside) {
        loaded[i] = {};
        if (inside && in_row(w)) loaded[i] = *reinterpret_cast<const Loaded*>(from);
      });
      to_floats<Stored>(loaded, two);
    } else {
      Stored loaded[at_once][2];
      each([&](int i, const Stored* from, int w, bool inside) {
        loaded[i][0] = loaded[i][1] = convert<Stored>(0.0f);
        if (inside && in_row(w)) loaded[i][0] = from[0];
        if (inside && in_row(w + 1)) loaded[i][1] = from[1];
      });
      to_floats<Stored>(loaded, two);
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int number = first + i * threads;
      if (number < end) use(2 * number, two[i]);
    }
  }
}

/// Returns where row 0 of a plane begins, or would begin, of a tile whose planes are `in_fours`.
template <class Stored>
__device__ const Stored* row_0(const WindowKernelParams& params, const TensorSource<Stored>& source,
                               int plane) {
  return source.x + plane * params.x_next_plane;
}
template <class Stored>
__device__ const Stored* row_0(const WindowKernelParams&, const StagedTile<Stored>& staged,
                               int plane) {
  return staged(plane, 0) - staged.row * staged.width;
}

/// Four neighbours of a tile whose planes are `in_fours`: they are contiguous, and aligned both in
/// x and in the tile.
template <class Stored>
struct TileFour {
  bool inside;         ///< whether they lie in the batch and the image
  const Stored* from;  ///< where they are, or would be

  template <class Source>
  __device__ TileFour(const WindowKernelParams& params, const WindowItem& item,
                      const Source& source, int number) {
    const auto [plane, four] = params.plane_fours.divide(number);
    const int at = item.first_h * params.conv.w + 4 * four;
    inside = plane < item.images * params.channels.value() && at >= 0 &&
             at < params.conv.h * params.conv.w;
    from = row_0(params, source, plane) + at;
  }
};

/// Calls `use(to, four)` for all fours of a tile whose planes are `in_fours`.
template <class Stored, class Source, class Use>
__device__ void for_each_four(const WindowKernelParams& params, const WindowItem& item,
                              const Source& source, Use&& use) {
  constexpr int at_once = 4;
  using Loaded = std::conditional_t<sizeof(Stored) == 4, uint4, uint2>;
  const int end = params.images * params.channels.value() * params.plane_fours.value();
  const int threads = static_cast<int>(blockDim.x);
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x); first < end; first += at_once * threads) {
    Loaded loaded[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const TileFour<Stored> four(params, item, source, first + i * threads);
      loaded[i] = {};
      if (four.inside) loaded[i] = *reinterpret_cast<const Loaded*>(four.from);
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      float four[4];
      to_floats<Stored>(loaded[i], four);
      const int number = first + i * threads;
      if (number < end) use(4 * number, four);
    }
  }
}

/// Calls `use(to, values)` for the whole tile, two or four neighbours at a time.
template <class Stored, template <class> class Source, class Use>
__device__ void for_each_run(const WindowKernelParams& params, const WindowItem& item,
                             const Source<Stored>& source, Use&& use) {
  if (params.in_fours)
    for_each_four<Stored>(params, item, source, use);
  else
    for_each_pair(params, item, source, use);
}

/// Finds the largest finite magnitude, from which a tile's scale is made, and whether a value is
/// not finite.
struct LargestFinite {
  int bits = 0;
  bool non_finite = false;

  __device__ void look_at(float value) {
    const int bits_of_it = magnitude_bits(value);
    non_finite = non_finite || bits_of_it >= infinity_bits;
    if (bits_of_it < infinity_bits) bits = max(bits, bits_of_it);
  }
  /// Raises `largest` to the bits of the largest |x|, and adds to `flags` what was met.
  __device__ void tell(int* largest, int* flags) const {
    const int most = __reduce_max_sync(0xffffffff, bits);
    if (threadIdx.x % 32 == 0 && most > 0) atomicMax(largest, most);
    if (non_finite) atomicOr(flags, met_non_finite);
  }
};

template <class Source>
__device__ void find_largest(const WindowKernelParams& params, const WindowItem& item,
                             const Source& source, WindowControl& control, int turn) {
  LargestFinite found;
  for_each_run(params, item, source, [&](int, const auto& values) {
#pragma unroll
    for (const float value : values) found.look_at(value);
  });
  found.tell(&control.largest[turn], &control.flags[turn]);
}

/// Writes the tile to `x_tile`, times a power of two, and returns what was met. In scaled tiles
/// that is values which the scale does not fit: values that are too small, and values that are too
/// large where the scale was not made for this tile's largest. With `own_scale` it was, and what is
/// not finite has been met before.
template <class Scheme, class Source>
__device__ int write_tile(const WindowKernelParams& params, const WindowItem& item,
                          const Source& source, int exponent, bool own_scale, char* x_tile) {
  const float scale = power_of_two(exponent);
  float most = 0;
  std::uint32_t least = 0xffffffff;  // bits of a magnitude less one, by which zero is the largest
  for_each_run(params, item, source, [&](int to, const auto& values) {
#pragma unroll
    for (const float value : values) {
      most = max_nan(most, fabsf(value));
      if constexpr (Scheme::scaled)
        least = min(least, static_cast<std::uint32_t>(magnitude_bits(value)) - 1);
    }
    Scheme::put(x_tile + to * Scheme::element_bytes, values, scale);
  });
  if constexpr (Scheme::scaled) {
    const float smallest = split_least * power_of_two(-exponent);
    const bool small = least < static_cast<std::uint32_t>(magnitude_bits(smallest)) - 1;
    const bool large = !own_scale && !(most * scale < split_most);
    return (small ? met_small : 0) | (large ? met_range : 0);
  }
  return most < infinity<float> ? 0 : met_non_finite;
}

}  // namespace plumb::cuda
