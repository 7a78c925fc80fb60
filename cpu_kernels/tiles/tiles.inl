// What both instruction sets have: how sums are judged and stored. Internal linkage, as
// primitives/vectors.inl says.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/tiles/tiles_kernels.hpp"

namespace plumb {
namespace {

/// Four sums of all sums: one NaN makes a sum NaN, as Infs of both signs do.
bool may_have_nan(const TileBlock& block) {
  __m512 sums[4];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (int half = 0; half < block.filter_count; half += tile_side) {
    const float* const from = block.sums + half;
    int i = 0;
    for (; i + 4 <= block.positions; i += 4)
      for (int j = 0; j < 4; ++j)
        sums[j] = _mm512_add_ps(sums[j], _mm512_loadu_ps(from + (i + j) * block_side));
    for (; i < block.positions; ++i)
      sums[0] = _mm512_add_ps(sums[0], _mm512_loadu_ps(from + i * block_side));
  }
  const __m512 sum =
      _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
  return _mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q) != 0;
}

/// The lanes [0, count).
inline __mmask16 lanes(int count) {
  return count < tile_side ? static_cast<__mmask16>((1u << count) - 1u)
                           : static_cast<__mmask16>(0xffff);
}

inline __m512 activated(const TileStore& to, __m512 sums) {
  const __m512 zero = _mm512_setzero_ps();
  // This way round, NaN stays NaN.
  return to.relu ? _mm512_mask_mov_ps(sums, _mm512_cmp_ps_mask(sums, zero, _CMP_LT_OQ), zero)
                 : sums;
}

/// Rounds sums of neighbours in memory, with what else a store has, and stores those wanted.
inline void finish_row(const TileStore& to, __m512 sums, BFloat16* row, __mmask16 wanted) {
  if (to.accumulate) {
    const __m256i old = _mm256_maskz_loadu_epi16(wanted, row);
    sums =
        _mm512_add_ps(sums, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(old), 16)));
  }
  _mm256_mask_storeu_epi16(row, wanted, (__m256i)_mm512_cvtneps_pbh(activated(to, sums)));
}

/// Outputs of a position lie side by side: a block's 32.
void store_whole_positions(const TileStore& to) {
  const __m512 low_bias = _mm512_loadu_ps(to.bias),
               high_bias = _mm512_loadu_ps(to.bias + tile_side);
  for (int i = 0; i < to.positions; ++i) {
    if (to.y_at[i] == no_output) continue;
    const float* const sums = to.sums + i * block_side;
    const __m512 low = activated(to, _mm512_add_ps(_mm512_loadu_ps(sums), low_bias));
    const __m512 high = activated(to, _mm512_add_ps(_mm512_loadu_ps(sums + tile_side), high_bias));
    _mm512_storeu_si512(to.y + to.y_at[i], (__m512i)_mm512_cvtne2ps_pbh(high, low));
  }
}

void store_positions(const TileStore& to) {
  if (to.filter_count == block_side && !to.accumulate) return store_whole_positions(to);
  for (int half = 0; half < to.filter_count; half += tile_side) {
    const __mmask16 wanted = lanes(to.filter_count - half);
    const __m512 bias = _mm512_loadu_ps(to.bias + half);
    for (int i = 0; i < to.positions; ++i)
      if (to.y_at[i] != no_output)
        finish_row(to, _mm512_add_ps(_mm512_loadu_ps(to.sums + i * block_side + half), bias),
                   to.y + to.y_at[i] + half, wanted);
  }
}

/// Turns a square of sums: rows[j] gets lane j of 16 positions, of which the last counts again
/// where there are fewer.
inline void turn_sums(const float* sums, int positions, __m512* rows) {
  __m512 a[16], b[16];
  for (int i = 0; i < 16; ++i)
    a[i] = _mm512_loadu_ps(sums + (i < positions ? i : positions - 1) * block_side);
  for (int i = 0; i < 8; ++i) {
    b[2 * i] = _mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]);
    b[2 * i + 1] = _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; ++j) {
      a[i + 2 * j] = _mm512_shuffle_ps(b[i + j], b[i + 2 + j], 0x44);
      a[i + 2 * j + 1] = _mm512_shuffle_ps(b[i + j], b[i + 2 + j], 0xee);
    }
  // a[4 m + j] has in its quarter q lane 4 q + j of the positions 4 m to 4 m + 3.
  for (int j = 0; j < 4; ++j) {
    const __m512 low01 = _mm512_shuffle_f32x4(a[j], a[4 + j], 0x44);
    const __m512 low23 = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0x44);
    const __m512 high01 = _mm512_shuffle_f32x4(a[j], a[4 + j], 0xee);
    const __m512 high23 = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0xee);
    rows[j] = _mm512_shuffle_f32x4(low01, low23, 0x88);
    rows[4 + j] = _mm512_shuffle_f32x4(low01, low23, 0xdd);
    rows[8 + j] = _mm512_shuffle_f32x4(high01, high23, 0x88);
    rows[12 + j] = _mm512_shuffle_f32x4(high01, high23, 0xdd);
  }
}

/// How many positions from `first` on, up to 16, have their outputs of a filter side by side.
inline int neighbours(const TileStore& to, int first) {
  int count = 1;
  while (count < tile_side && first + count < to.positions &&
         to.y_at[first + count] == to.y_at[first] + count)
    ++count;
  return count;
}

/// Outputs of a filter lie side by side where positions are neighbours.
void store_filters(const TileStore& to) {
  for (int first = 0, count; first < to.positions; first += count) {
    count = 1;
    if (to.y_at[first] == no_output) continue;
    count = neighbours(to, first);
    for (int half = 0; half < to.filter_count; half += tile_side) {
      __m512 rows[tile_side];
      turn_sums(to.sums + first * block_side + half, count, rows);
      BFloat16* y = to.y + to.y_at[first] + half * to.y_k;
      for (int k = 0; k < lesser(tile_side, to.filter_count - half); ++k, y += to.y_k)
        finish_row(to, _mm512_add_ps(rows[k], _mm512_set1_ps(to.bias[half + k])), y, lanes(count));
    }
  }
}

void store_block(const TileStore& to) {
  if (to.y_k == 1)
    store_positions(to);
  else
    store_filters(to);
}

/// `count` pixels of a plane, up to 16, that lie `apart` elements apart, 1 or 2; then zeros.
inline __m256i load_pixels(const BFloat16* from, std::int64_t apart, int count) {
  if (apart == 1) return _mm256_maskz_loadu_epi16(lanes(count), from);
  const auto wanted = static_cast<__mmask32>((std::uint64_t{1} << (2 * count - 1)) - 1);
  return _mm512_cvtepi32_epi16(_mm512_maskz_loadu_epi16(wanted, from));
}

/// Turns a square of 16: to[i][j] = from[j][i].
inline void turn_square(const __m256i* from, __m256i* to) {
  __m256i a[16], b[16];
  for (int j = 0; j < 8; ++j) {
    b[2 * j] = _mm256_unpacklo_epi16(from[2 * j], from[2 * j + 1]);
    b[2 * j + 1] = _mm256_unpackhi_epi16(from[2 * j], from[2 * j + 1]);
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
    to[i] = _mm256_permute2x128_si256(b[i], b[i + 8], 0x20);
    to[i + 8] = _mm256_permute2x128_si256(b[i], b[i + 8], 0x31);
  }
}

/// For 1 to 4 channels, of 16 pixels each: which element of four planes of 16 is the pixels' next.
struct PixelChoices {
  alignas(64) std::uint16_t of[4][64] = {};
  constexpr PixelChoices() {
    for (int channels = 1; channels <= 4; ++channels)
      for (int i = 0; i < 16 * channels; ++i)
        of[channels - 1][i] = static_cast<std::uint16_t>(i % channels * 16 + i / channels);
  }
};
constexpr PixelChoices pixel_choices;

/// Up to 4 channels: those of 16 pixels are two vectors of 32 at most, each a choice of elements of
/// four planes.
void turn_few(const TilePlanes& planes, std::int64_t pixels, BFloat16* to) {
  const auto channels = static_cast<int>(planes.channels);
  const std::uint16_t* const choice = pixel_choices.of[channels - 1];
  const __m512i first = _mm512_load_si512(choice), second = _mm512_load_si512(choice + 32);
  for (std::int64_t pixel = 0; pixel < pixels; pixel += 16) {
    const auto count = static_cast<int>(lesser(16, pixels - pixel));
    __m256i plane[4] = {};
    for (int j = 0; j < channels; ++j)
      plane[j] =
          load_pixels(planes.from + j * planes.step + pixel * planes.apart, planes.apart, count);
    const __m512i low = _mm512_inserti64x4(_mm512_castsi256_si512(plane[0]), plane[1], 1);
    const __m512i high = _mm512_inserti64x4(_mm512_castsi256_si512(plane[2]), plane[3], 1);
    const std::uint64_t wanted =
        count * channels < 64 ? (std::uint64_t{1} << (count * channels)) - 1 : ~std::uint64_t{};
    BFloat16* const row = to + pixel * channels;
    _mm512_mask_storeu_epi16(row, static_cast<__mmask32>(wanted),
                             _mm512_permutex2var_epi16(low, first, high));
    if (wanted >> 32)
      _mm512_mask_storeu_epi16(row + 32, static_cast<__mmask32>(wanted >> 32),
                               _mm512_permutex2var_epi16(low, second, high));
  }
}

void turn(const TilePlanes& planes, std::int64_t pixels, BFloat16* to) {
  if (planes.channels <= 4) return turn_few(planes, pixels, to);
  for (std::int64_t pixel = 0; pixel < pixels; pixel += 16)
    for (std::int64_t c = 0; c < planes.channels; c += 16) {
      const auto count = static_cast<int>(lesser(16, pixels - pixel));
      const auto channels = static_cast<int>(lesser(16, planes.channels - c));
      __m256i from[16] = {}, turned[16];
      for (int j = 0; j < channels; ++j)
        from[j] = load_pixels(planes.from + (c + j) * planes.step + pixel * planes.apart,
                              planes.apart, count);
      turn_square(from, turned);
      BFloat16* row = to + pixel * planes.channels + c;
      for (int i = 0; i < count; ++i, row += planes.channels)
        _mm256_mask_storeu_epi16(row, lanes(channels), turned[i]);
    }
}

}  // namespace
}  // namespace plumb
