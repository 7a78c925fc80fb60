// What both instruction sets have: how sums are judged and stored. Internal linkage, as
// primitives/vectors.inl says.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/tiles/tiles_kernels.hpp"

namespace plumb {
namespace {

/// Fetches the filters of a step that comes some steps later into the level-2 cache.
inline void fetch_filters(const BFloat16* filters) {
  constexpr std::int64_t steps_ahead = 6, step = tile_terms * block_side, line = 32;
  for (std::int64_t i = 0; i < step; i += line)
    _mm_prefetch(reinterpret_cast<const char*>(filters + steps_ahead * step + i), _MM_HINT_T1);
}

bool any_nan(const TileBlock& block) {
  __mmask16 nan = 0;
  for (int i = 0; i < block.positions; ++i)
    for (int half = 0; half < block.filter_count; half += tile_side) {
      const __m512 sums = _mm512_loadu_ps(block.sums + i * block_side + half);
      nan = static_cast<__mmask16>(nan | _mm512_cmp_ps_mask(sums, sums, _CMP_UNORD_Q));
    }
  return nan != 0;
}

/// The lanes [0, count).
inline __mmask16 lanes(int count) { return static_cast<__mmask16>((1u << count) - 1u); }

/// Rounds sums of neighbours in memory, with what else a store has, and stores `count` of them.
inline void finish_row(const TileStore& to, __m512 sums, BFloat16* row, int count) {
  const __mmask16 wanted = count < tile_side ? lanes(count) : static_cast<__mmask16>(0xffff);
  if (to.accumulate) {
    const __m256i old = _mm256_maskz_loadu_epi16(wanted, row);
    sums =
        _mm512_add_ps(sums, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(old), 16)));
  }
  const __m512 zero = _mm512_setzero_ps();
  // This way round, NaN stays NaN.
  if (to.relu) sums = _mm512_mask_mov_ps(sums, _mm512_cmp_ps_mask(sums, zero, _CMP_LT_OQ), zero);
  _mm256_mask_storeu_epi16(row, wanted, (__m256i)_mm512_cvtneps_pbh(sums));
}

/// Outputs of a position lie side by side.
void store_positions(const TileStore& to) {
  for (int half = 0; half < to.filter_count; half += tile_side) {
    const int filters = to.filter_count - half < tile_side ? to.filter_count - half : tile_side;
    const __m512 bias = _mm512_loadu_ps(to.bias + half);
    for (int i = 0; i < to.positions; ++i)
      finish_row(to, _mm512_add_ps(_mm512_loadu_ps(to.sums + i * block_side + half), bias),
                 to.y + to.y_at[i] + half, filters);
  }
}

/// Outputs of a filter lie side by side where positions are neighbours.
void store_filters(const TileStore& to) {
  const __m512i rows =
      _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                         _mm512_set1_epi32(block_side));
  for (int first = 0; first < to.positions;) {
    int count = 1;
    while (count < tile_side && first + count < to.positions &&
           to.y_at[first + count] == to.y_at[first] + count)
      ++count;
    for (int k = 0; k < to.filter_count; ++k) {
      const float* const from = to.sums + first * block_side + k;
      const __m512 sums =
          _mm512_mask_i32gather_ps(_mm512_setzero_ps(), lanes(count), rows, from, 4);
      finish_row(to, _mm512_add_ps(sums, _mm512_set1_ps(to.bias[k])),
                 to.y + to.y_at[first] + k * to.y_k, count);
    }
    first += count;
  }
}

void store_block(const TileStore& to) {
  if (to.y_k == 1)
    store_positions(to);
  else
    store_filters(to);
}

/// Turns a square: to[i to_step + j] = from[i + j from_step] for 16 of each.
inline void turn_square(const BFloat16* from, std::int64_t from_step, BFloat16* to,
                        std::int64_t to_step) {
  __m256i a[16], b[16];
  for (int j = 0; j < 16; ++j)
    a[j] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + j * from_step));
  for (int j = 0; j < 8; ++j) {
    b[2 * j] = _mm256_unpacklo_epi16(a[2 * j], a[2 * j + 1]);
    b[2 * j + 1] = _mm256_unpackhi_epi16(a[2 * j], a[2 * j + 1]);
  }
  for (int j = 0; j < 16; j += 4)
    for (int i = 0; i < 2; ++i) {
      a[j + 2 * i] = _mm256_unpacklo_epi32(b[j + i], b[j + 2 + i]);
      a[j + 2 * i + 1] = _mm256_unpackhi_epi32(b[j + i], b[j + 2 + i]);
    }
  for (int j = 0; j < 16; j += 8)
    for (int i = 0; i < 4; ++i) {
      b[j + 2 * i] = _mm256_unpacklo_epi64(a[j + i], a[j + 4 + i]);
      b[j + 2 * i + 1] = _mm256_unpackhi_epi64(a[j + i], a[j + 4 + i]);
    }
  for (int i = 0; i < 8; ++i) {
    auto* const low = reinterpret_cast<__m256i*>(to + i * to_step);
    auto* const high = reinterpret_cast<__m256i*>(to + (i + 8) * to_step);
    _mm256_storeu_si256(low, _mm256_permute2x128_si256(b[i], b[i + 8], 0x20));
    _mm256_storeu_si256(high, _mm256_permute2x128_si256(b[i], b[i + 8], 0x31));
  }
}

/// Copies planes, whose pixels lie side by side, to pixels, whose channels do.
void turn(const BFloat16* planes, std::int64_t plane_step, std::int64_t pixels,
          std::int64_t channels, BFloat16* to) {
  for (std::int64_t pixel = 0; pixel < pixels; pixel += 16)
    for (std::int64_t c = 0; c < channels; c += 16) {
      if (pixel + 16 <= pixels && c + 16 <= channels) {
        turn_square(planes + c * plane_step + pixel, plane_step, to + pixel * channels + c,
                    channels);
        continue;
      }
      for (std::int64_t i = pixel; i < lesser(pixel + 16, pixels); ++i)
        for (std::int64_t j = c; j < lesser(c + 16, channels); ++j)
          to[i * channels + j] = planes[i + j * plane_step];
    }
}

}  // namespace
}  // namespace plumb
