// The register tiles of backward weights whose vectors run over channels of x, compiled once for
// each instruction set, with internal linkage (primitives/vectors.inl says why).
#pragma once

#include <type_traits>

#include "cpu_kernels/conv/weights_kernels.hpp"
#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/primitives/transpose.inl"
#include "cpu_kernels/primitives/vectors.inl"

namespace plumb {
namespace {

/// Calls `tile(first, count)` for tiles of at most `most` terms, of sizes as equal as can be: a
/// small tile has too few sums for the latency of an FMA.
template <class Tile>
inline void for_each_tile(std::int64_t terms, std::int64_t most, const Tile& tile) {
  const std::int64_t tiles = (terms + most - 1) / most;
  for (std::int64_t i = 0; i < tiles; ++i) {
    const std::int64_t first = terms * i / tiles;
    tile(first, terms * (i + 1) / tiles - first);
  }
}

/// The most vectors of channels of a tile, and the filters of one with so many: registers hold the
/// sums, a vector of x each, and a broadcast element of dy. More than eight filters leave too few
/// registers for their addresses.
inline constexpr int max_channel_vectors = PLUMB_REGISTERS == 32 ? 4 : 2;
constexpr int channel_tile_filters(int vectors) {
  const int in_registers = (PLUMB_REGISTERS - 2 - vectors) / vectors;
  return in_registers < 8 ? in_registers : 8;
}

// The loops that follow are unrolled, because compilers otherwise keep the sums in memory to index
// them.

template <class Real, int vectors, int filters>
inline void sum_channel_tile(const WeightsWideRun<Real>& run, std::int64_t c, std::int64_t tap,
                             std::int64_t k) {
  Vector<Real> sums[filters][vectors] = {};
  constexpr int of_tile = max_channel_vectors * lanes<Real>;
  const Real* const from = run.x + c / of_tile * run.x_tile + c % of_tile;
  const std::int64_t count = run.count, x_q = run.x_q, dy_q = run.dy_q;
  const std::int64_t step = run.taps * run.channels;
  Real* const to = run.sums + k * step + tap * run.channels + c;
#pragma GCC unroll 16
  for (int f = 0; f < filters; ++f)
    for (int v = 0; v < vectors; ++v) __builtin_prefetch(to + f * step + v * lanes<Real>, 1);
  // The gradients of the next tile's filters are short rows, too short for a hardware prefetcher.
  constexpr std::int64_t line = 64 / sizeof(Real);
  const std::int64_t ahead = filters * run.dy_k;
  for (std::int64_t r = 0; r < run.runs; ++r) {
    const Real* x = from + run.x_starts[r] + run.offsets[tap];
    const Real* dy[filters];
#pragma GCC unroll 16
    for (int f = 0; f < filters; ++f) dy[f] = run.dy + run.dy_starts[r] + (k + f) * run.dy_k;
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < count;) {
      const std::int64_t end = lesser(i + line, count);
#pragma GCC unroll 16
      for (int f = 0; f < filters; ++f) __builtin_prefetch(dy[f] + at + ahead);
#pragma GCC unroll 1
      for (; i < end; ++i, x += x_q, at += dy_q) {
        Vector<Real> values[vectors];
#pragma GCC unroll 16
        for (int v = 0; v < vectors; ++v) values[v] = load_vector(x + v * lanes<Real>);
#pragma GCC unroll 16
        for (int f = 0; f < filters; ++f) {
          const Real gradient = dy[f][at];
#pragma GCC unroll 16
          for (int v = 0; v < vectors; ++v) sums[f][v] += values[v] * gradient;
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int f = 0; f < filters; ++f)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) {
      Real* const at = to + f * step + v * lanes<Real>;
      *reinterpret_cast<Vector<Real>*>(at) = run.first ? sums[f][v] : load_vector(at) + sums[f][v];
    }
}

/// Sums a tile of `wanted` filters, at most `filters`.
template <class Real, int vectors, int filters>
inline void sum_channel_filters(const WeightsWideRun<Real>& run, std::int64_t c, std::int64_t tap,
                                std::int64_t k, std::int64_t wanted) {
  if constexpr (filters > 0) {
    if (wanted == filters) return sum_channel_tile<Real, vectors, filters>(run, c, tap, k);
    sum_channel_filters<Real, vectors, filters - 1>(run, c, tap, k, wanted);
  }
}

/// All filters pass by some vectors of x, which stay in a near cache.
template <class Real, int vectors>
inline void sum_channel_vectors(const WeightsWideRun<Real>& run, std::int64_t c) {
  constexpr int most = channel_tile_filters(vectors);
  for (std::int64_t tap = 0; tap < run.taps; ++tap)
    for_each_tile(run.filters, most, [&](std::int64_t k, std::int64_t count) {
      sum_channel_filters<Real, vectors, most>(run, c, tap, k, count);
    });
}

template <class Real>
void sum_channels_of_x(const WeightsWideRun<Real>& run) {
  constexpr int most = max_channel_vectors;
  std::int64_t c = 0;
  for (; c + most * lanes<Real> <= run.channels; c += most * lanes<Real>)
    sum_channel_vectors<Real, most>(run, c);
  if constexpr (most > 2)
    if (run.channels - c >= 2 * lanes<Real>) {
      sum_channel_vectors<Real, 2>(run, c);
      c += 2 * lanes<Real>;
    }
  if (c < run.channels) sum_channel_vectors<Real, 1>(run, c);
}

template <class Real>
void turn(const Real* from, std::int64_t step, std::int64_t rows, std::int64_t columns, Real* to,
          std::int64_t to_step, std::int64_t to_rows) {
  for (std::int64_t column = 0; to_rows > rows && column < columns; ++column)
    for (std::int64_t row = rows; row < to_rows; ++row) to[column * to_step + row] = 0;
  // Some columns at a time are a few lines of each row, and neighbours where they are written.
  constexpr std::int64_t together = 16, least = 8;
  if constexpr (std::is_same_v<Real, float>) {
    for (std::int64_t column = 0; column < columns; column += together) {
      const std::int64_t first = columns - column < least ? greater(columns - least, 0) : column;
      transpose(from + first, step, rows, lesser(columns - first, together), to + first * to_step,
                to_step);
    }
  } else {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column)
        to[column * to_step + row] = from[row * step + column];
  }
}

}  // namespace
}  // namespace plumb
