// Blocks by AVX512-BF16: dot products of pairs, with sums of up to 12 positions by 32 filters in
// registers.
#include <cstring>

#include "cpu_kernels/tiles/tiles.inl"

namespace plumb {
namespace {

void nothing() {}

/// Sums of positions [first, first + count) and of `halves` times 16 filters.
template <int count, int halves>
inline void multiply_positions(const TileBlock& block, int first) {
  __m512 sums[count][halves];
  for (auto& of_position : sums)
    for (__m512& sum : of_position) sum = _mm512_setzero_ps();
  const BFloat16* w = block.filters;
  for (std::int64_t step = 0; step < block.steps; ++step) {
    const BFloat16* const x = block.slab + block.offsets[step] + first * block.step;
    for (int pair = 0; pair < tile_terms / 2; ++pair) {
      __m512bh weights[halves];
      for (int half = 0; half < halves; ++half)
        weights[half] = (__m512bh)_mm512_loadu_si512(w + half * block.steps * step_filters +
                                                     pair * 2 * tile_side);
#pragma GCC unroll 32
      for (int i = 0; i < count; ++i) {
        int two;
        __builtin_memcpy(&two, x + i * block.step + 2 * pair, sizeof two);
        const __m512bh terms = (__m512bh)_mm512_set1_epi32(two);
#pragma GCC unroll 2
        for (int half = 0; half < halves; ++half)
          sums[i][half] = _mm512_dpbf16_ps(sums[i][half], terms, weights[half]);
      }
    }
    w += step_filters;
  }
  for (int i = 0; i < count; ++i)
    for (int half = 0; half < halves; ++half)
      _mm512_storeu_ps(block.sums + (first + i) * block_side + half * tile_side, sums[i][half]);
}

template <int halves>
void multiply_halves(const TileBlock& block) {
  int first = 0;
  for (; first + 12 <= block.positions; first += 12) multiply_positions<12, halves>(block, first);
  for (; first + 4 <= block.positions; first += 4) multiply_positions<4, halves>(block, first);
  for (; first < block.positions; ++first) multiply_positions<1, halves>(block, first);
}

void multiply(const TileBlock& block) {
  if (block.filter_count > tile_side)
    multiply_halves<2>(block);
  else
    multiply_halves<1>(block);
}

}  // namespace

const TileKernels tiles_kernels_avx512_bf16{.begin = &nothing,
                                            .end = &nothing,
                                            .multiply = &multiply,
                                            .may_have_nan = &may_have_nan,
                                            .store = &store_block,
                                            .turn = &turn};

}  // namespace plumb
