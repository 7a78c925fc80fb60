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
    TapsTerm pixels[vector];
#pragma unroll
    for (int i = 0; i < vector; ++i) {
      const int pixel = min(first + taps_lane_pixel(i, lane), params.images.pixels - 1);
      pixels[i] = params.images.first_tap(params.images.place(pixel));
    }
    if (params.images.padded)
      gather_all<true>(params, pixels, terms, lane);
    else
      gather_all<false>(params, pixels, terms, lane);
  }

 private:
  template <bool padded, class Params>
  __device__ void gather_all(const Params& params, const TapsTerm (&pixels)[vector],
                             const TapsTerm* terms, int lane) {
#pragma unroll
    for (int unit = 0; unit < units; ++unit)
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        if (2 * unit + step >= params.steps) return;
#pragma unroll
        for (int behind = 0; behind < 2; ++behind) {
          Fragment words[vector] = {};
          const int number = (4 * (2 * unit + step) + lane % 4) * 2 * per_word + behind * per_word;
#pragma unroll
          for (int i = 0; i < per_word; ++i)
            add_term<padded>(params, pixels, terms, number + i, 16 * i, words);
#pragma unroll
          for (int pixel = 0; pixel < vector; ++pixel)
            of[unit][pixel / 2][step][2 * behind + pixel % 2] = operand(words[pixel]);
        }
      }
  }
  /// Loads a term of all pixels.
  template <bool padded, class Params>
  __device__ static void add_term(const Params& params, const TapsTerm (&pixels)[vector],
                                  const TapsTerm* terms, int number, int shift,
                                  Fragment (&words)[vector]) {
    using Bits = std::conditional_t<Arithmetic::is_tf32, std::uint32_t, std::uint16_t>;
    const TapsTerm term = terms[number];
    const bool is_term = number < params.images.terms;
#pragma unroll
    for (int i = 0; i < vector; ++i)
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
