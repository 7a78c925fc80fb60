// What the functions of backward weights that are compiled for each instruction set get
// (weights/weights.inl). It is plain data, because sources for several instruction sets share it.
#pragma once

#include <cstdint>

#include "plumb/types.hpp"

namespace plumb {

/// Some filters' gradients by some terms of x, of the positions of a band:
///
///   sums[k][term] += sum over runs and i of dy[k][run][i] x[x_starts[run] + offsets[term] + i]
///
/// A run is `count` consecutive positions.
template <class Real>
struct WeightsRun {
  const Real* x;
  const std::int64_t* offsets;  ///< of each term, in elements
  std::int64_t terms;
  const std::int64_t *x_starts, *dy_starts;  ///< of each run, in elements
  std::int64_t runs, count;
  const Real* dy;
  std::int64_t dy_k;     ///< from a filter to the next, where they are apart
  std::int64_t filters;  ///< a multiple of `lanes` where filters are neighbours
  Real* sums;            ///< [filter][term][lane], or [term][filter] where filters are neighbours
  /// Of vectors of positions, those from `first` on in each run, `step` apart.
  std::int64_t first = 0, step = 0;
  /// Whether the products go on from the sums; otherwise they are summed before they are added.
  bool goes_on = false;
};

/// Some filters' gradients by vectors of x's channels, of the positions of a band:
///
///   sums[k][tap][c] += sum over runs and i of
///       dy[dy_starts[run] + k dy_k + i dy_q] x[x_starts[run] + offsets[tap] + i x_q + c]
///
/// Channels lie in tiles of `tile_channels` x_tile apart, and all steps are in elements.
template <class Real>
struct WeightsWideRun {
  const Real* x;
  const std::int64_t* offsets;
  std::int64_t taps;
  const std::int64_t *x_starts, *dy_starts;
  std::int64_t runs, count;
  std::int64_t x_q, x_tile;
  const Real* dy;
  std::int64_t dy_k, dy_q;
  std::int64_t filters;
  std::int64_t channels;  ///< a multiple of `lanes`
  Real* sums;
  bool first;  ///< whether the sums hold nothing yet
};

/// Rows of dy that are to be packed.
struct GradientRows {
  DType dtype;
  const void* dy;
  const std::int64_t* offsets;  ///< of each row's first filter, in elements
  std::int64_t rows, columns;
  std::int64_t filters;
  std::int64_t dy_k, dy_q;  ///< from a filter to the next, and from a column
};

/// The functions of one instruction set.
template <class Real>
struct WeightsKernels {
  std::int64_t lanes;
  std::int64_t filters;  ///< of a tile whose vectors run over positions
  /// Vectors run over positions, and dy lies as [filter][position].
  void (*sum_positions)(const WeightsRun<Real>&);
  /// Vectors run over filters, and dy lies as [position][filter].
  void (*sum_filters)(const WeightsRun<Real>&);
  /// Packs [row][column][filter], with zeros up to `padded` filters.
  void (*pack_filters)(const GradientRows&, std::int64_t padded, Real* to);
  /// Packs [filter][row][column], rows `pitch` apart with zeros between, filters `step` apart.
  void (*pack_positions)(const GradientRows&, std::int64_t pitch, std::int64_t step, Real* to);
  /// Adds the lanes of `count` sums up: [i][lane] becomes [i].
  void (*add_lanes)(const Real* sums, std::int64_t count, Real* to);
  std::int64_t tile_channels;  ///< the most of a tile whose vectors run over channels
  /// Vectors run over channels.
  void (*sum_channels)(const WeightsWideRun<Real>&);
  /// Writes to[column * to_step + row] = from[row * step + column], `to_rows` rows of which those
  /// from `rows` on are zeros.
  void (*turn)(const Real* from, std::int64_t step, std::int64_t rows, std::int64_t columns,
               Real* to, std::int64_t to_step, std::int64_t to_rows);
};

}  // namespace plumb
