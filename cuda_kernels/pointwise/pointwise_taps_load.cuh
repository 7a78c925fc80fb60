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
    if (params.images.padded)
      gather_all<true>(params, terms, first, lane);
    else
      gather_all<false>(params, terms, first, lane);
  }

 private:
  template <bool padded, class Params>
  __device__ void gather_all(const Params& params, const TapsTerm* terms, int first, int lane) {
#pragma unroll
    for (int j = 0; j < m16_tiles; ++j) {
      TapsTerm pixels[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int pixel = first + taps_lane_pixel(2 * j + i, lane);
        pixels[i] =
            params.images.first_tap(params.images.place(min(pixel, params.images.pixels - 1)));
      }
      // No k step is left out, so that no branch makes what is behind it wait for the loads before.
#pragma unroll
      for (int i = 0; i < 4 * units; ++i) gather_two<padded>(params, pixels, terms, j, i, lane);
    }
  }
  /// Gathers a register's terms of a lane's two pixels of an m16 tile: of each k step are two.
  template <bool padded, class Params>
  __device__ void gather_two(const Params& params, const TapsTerm (&pixels)[2],
                             const TapsTerm* terms, int j, int number, int lane) {
    const int step = number / 2, first = (4 * step + lane % 4) * 2 + number % 2;
    Fragment words[2] = {};
#pragma unroll
    for (int i = 0; i < per_word; ++i) {
      const int term = first * per_word + i;
      add_term<padded>(params, pixels, terms[term], term, 16 * i, words);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) of[step / 2][j][step % 2][number % 2 * 2 + i] = operand(words[i]);
  }
  /// Loads a term of two pixels.
  template <bool padded, class Params>
  __device__ static void add_term(const Params& params, const TapsTerm (&pixels)[2],
                                  const TapsTerm& term, int number, int shift,
                                  Fragment (&words)[2]) {
    using Bits = std::conditional_t<Arithmetic::is_tf32, std::uint32_t, std::uint16_t>;
    const bool is_term = number < params.images.terms;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const bool there = padded ? is_term & params.images.has(pixels[i], term) : is_term;
      const auto* const from =
          reinterpret_cast<const Bits*>(params.x) + (pixels[i].offset + term.offset);
      words[i] |= (there ? Fragment{__ldg(from)} : 0) << shift;
    }
  }
  __device__ static Fragment operand(Fragment word) {
    if constexpr (Arithmetic::is_tf32 && !Arithmetic::splits)
      return __float_as_uint(to_tf32(__uint_as_float(word)));
    else
      return word;
  }
};

}  // namespace plumb::cuda
