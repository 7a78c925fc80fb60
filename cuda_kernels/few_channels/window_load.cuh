// Where filters stream, and products want as many bytes of an element as x has, the input under a
// tile is copied as it is to where it is multiplied, and is rounded there, in place. Copies do not
// pass through registers, so that all of a tile's are under way at once, whatever its alignment.
#pragma once

#include <cstdint>

#include "cuda_kernels/few_channels/window_input.cuh"
#include "cuda_kernels/primitives/async_copy.cuh"
#include "cuda_kernels/primitives/thread_anew.cuh"

namespace plumb::cuda {

/// Whether tiles are loaded in place. Where filters stay they are not: most of those tiles are
/// staged, and the registers that loading in place takes cost them 4 to 10 % of their time (one
/// H200).
template <class Scheme, class Terms, class Stored>
inline constexpr bool loads_in_place = Scheme::element_bytes == sizeof(Stored) && Terms::streams;

/// A tile's input in shared memory, as it is in x, with zeros outside x.
template <class Stored>
struct LoadedTile {
  const Stored* at;
};

/// Begins to copy a tile whose planes are `in_fours`.
template <class Stored>
__device__ void begin_fours(const WindowKernelParams& params, const WindowItem& item,
                            const TensorSource<Stored>& source, Stored* x_tile) {
  const int end = params.tile_elements / 4;
  for (int i = thread_anew(); i < end; i += static_cast<int>(blockDim.x)) {
    const TileFour<Stored> four(params, item, source, i);
    copy_bytes_async<4 * sizeof(Stored)>(x_tile + 4 * i, four.from, four.inside);
  }
}

/// Begins to copy a tile's input to `x_tile`, which nothing reads any more. The whole block calls
/// it; the copy is complete after wait_for_copies() and a barrier.
template <class Stored>
__device__ void begin_tile(const WindowKernelParams& params, const WindowItem& item,
                           const TensorSource<Stored>& source, Stored* x_tile) {
  if (params.in_fours) return begin_fours(params, item, source, x_tile);
  const int bits = params.row_lanes_bits, lanes = 1 << bits, pitch = params.pitch;
  const int thread = thread_anew(), lane = thread & (lanes - 1);
#pragma unroll 1
  for (int tile_row = thread >> bits; tile_row < params.tile_rows;
       tile_row += params.rows_at_once) {
    const auto [inside, from] = TileRow<Stored>(params, item, source, tile_row);
    const unsigned width = inside ? static_cast<unsigned>(params.conv.w) : 0;
    Stored* const to = x_tile + tile_row * pitch;
    // This calls `copy(to, from, inside)` for `neighbours` elements at a time.
    const auto each = [&](auto neighbours, auto&& copy) {
      constexpr int at_once = loaded_at_once, count = decltype(neighbours)::value;
      const std::int64_t step = source.column;
      const int apart = count * lanes;
      int column = count * lane;
      const Stored* x = from + column * step;
#pragma unroll 1
      for (; column < pitch; column += at_once * apart) {
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
          if (column + i * apart < pitch)
            copy(to + column + i * apart, x,
                 static_cast<unsigned>(item.first_w + column + i * apart) < width);
          x += apart * step;
        }
      }
    };
    using One = std::integral_constant<int, 1>;
    using Two = std::integral_constant<int, 2>;
    if (params.pairs_aligned) {
      each(Two{}, copy_bytes_async<2 * sizeof(Stored)>);
    } else if constexpr (sizeof(Stored) == 4) {
      each(One{}, copy_bytes_async<4>);
    } else {  // cp.async copies 4 bytes at least
      each(One{}, [](Stored* to_shared, const Stored* x, bool valid) {
        *to_shared = valid ? *x : convert<Stored>(0.0f);
      });
    }
  }
  // The tile is read in fours, so zeros fill up the last of them.
  const int end = params.tile_elements;
  if (thread < 2 && end % 4 != 0) x_tile[end + thread] = convert<Stored>(0.0f);
}

/// Calls `use(to, four)` for all fours of a tile; `use` may write to their places.
template <class Stored, class Use>
__device__ void for_each_run(const WindowKernelParams& params, const WindowItem&,
                             const LoadedTile<Stored>& tile, Use&& use) {
  constexpr int at_once = 4;
  using Loaded = std::conditional_t<sizeof(Stored) == 4, uint4, uint2>;
  const int threads = static_cast<int>(blockDim.x);
#pragma unroll 1
  for (int first = thread_anew(); 4 * first < params.tile_elements; first += at_once * threads) {
    Loaded loaded[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (4 * (first + i * threads) < params.tile_elements)
        loaded[i] = *reinterpret_cast<const Loaded*>(tile.at + 4 * (first + i * threads));
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      if (4 * (first + i * threads) >= params.tile_elements) break;
      float four[4];
      to_floats<Stored>(loaded[i], four);
      use(4 * (first + i * threads), four);
    }
  }
}

}  // namespace plumb::cuda
