// Terms go from global memory to registers: a lane gathers those of its pixels as fragments of A.
#pragma once

#include "cuda_kernels/pointwise/pointwise_load.cuh"
#include "cuda_kernels/pointwise/pointwise_taps_params.cuh"

namespace plumb::cuda {

/// A warp's fragments of A, of all terms of its tile: of each unit and m16 tile, of its two k
/// steps. The order of terms is TapsPlace's.
template <class Arithmetic, int units>
struct TapsFragments {
  static constexpr int vector = Arithmetic::vector, m16_tiles = Arithmetic::m16_tiles;
  static constexpr int per_word = vector / 4;  ///< terms of a register
  Fragment of[units][m16_tiles][2][4];

  /// Gathers the terms of a tile that begins at `first`. Pixels beyond the last are the last.
  template <class Params>
  __device__ void gather(const Params& params, const TapsTerm* terms, int first) {
    const int lane = lane_anew();
#pragma unroll
    for (int j = 0; j < m16_tiles; ++j) {
      TapsTerm pixels[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int pixel = first + taps_lane_pixel(2 * j + i, lane);
        pixels[i] =
            params.images.first_tap(params.images.place(min(pixel, params.images.pixels - 1)));
      }
      if (params.images.padded)
        gather_two<true>(params, pixels, terms, j, lane);
      else
        gather_two<false>(params, pixels, terms, j, lane);
    }
  }

 private:
  /// Gathers the terms of a lane's two pixels of an m16 tile.
  template <bool padded, class Params>
  __device__ void gather_two(const Params& params, const TapsTerm (&pixels)[2],
                             const TapsTerm* terms, int j, int lane) {
#pragma unroll
    for (int unit = 0; unit < units; ++unit)
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        if (2 * unit + step >= params.steps) return;
#pragma unroll
        for (int behind = 0; behind < 2; ++behind) {
          const int number = ((4 * (2 * unit + step) + lane % 4) * 2 + behind) * per_word;
          Fragment words[2] = {};
#pragma unroll
          for (int i = 0; i < per_word; ++i)
            add_term<padded>(params, pixels, terms[number + i], number + i, 16 * i, words);
#pragma unroll
          for (int i = 0; i < 2; ++i) of[unit][j][step][2 * behind + i] = operand(words[i]);
        }
      }
  }
  /// Loads a term of two pixels.
  template <bool padded, class Params>
  __device__ static void add_term(const Params& params, const TapsTerm (&pixels)[2],
                                  const TapsTerm& term, int number, int shift,
                                  Fragment (&words)[2]) {
    using Bits = std::conditional_t<Arithmetic::is_tf32, std::uint32_t, std::uint16_t>;
    const bool is_term = number < params.images.terms;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (is_term && (!padded || params.images.has(pixels[i], term)))
        words[i] |= Fragment{__ldg(reinterpret_cast<const Bits*>(params.x) +
                                   (pixels[i].offset + term.offset))}
                    << shift;
  }
  __device__ static Fragment operand(Fragment word) {
    if constexpr (Arithmetic::is_tf32 && !Arithmetic::splits)
      return __float_as_uint(to_tf32(__uint_as_float(word)));
    else
      return word;
  }
};

}  // namespace plumb::cuda
