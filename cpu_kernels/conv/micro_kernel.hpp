// The micro-kernel that direct convolutions and those by panels share. It computes, in register
// tiles,
//
//   sums[k][i] = sum over terms of x[offsets[term] + i] w[term][k]
//
// Vectors run over output positions i, which are neighbours in memory for every term. A tile is a
// few vectors by a few filters, and stays in registers from the first term to the last. x is a
// plane or a panel: the callers' offsets say where terms lie. The micro-kernel is compiled once for
// each instruction set (micro_kernel.inl).
#pragma once

#include <cstdint>

namespace plumb {

/// A call of the micro-kernel computes `count` positions of each of `filters` filters, `rows`
/// times.
template <class Real>
struct MicroKernelRun {
  const Real* x;                ///< readable up to a multiple of the longest vector
  const std::int64_t* offsets;  ///< of each term's input, in elements
  std::int64_t terms;
  /// Each tile prefetches these terms' input, `prefetch_distance` beyond its own positions.
  const std::int64_t* prefetch_offsets;
  std::int64_t prefetch_terms, prefetch_distance;
  const Real* w;         ///< [term][filters]
  std::int64_t filters;  ///< what run_filters() returns
  const Real* partial;   ///< null, or the sums of earlier terms: [filter][partial_step]
  std::int64_t partial_step;
  Real* sums;  ///< [filter][step]; nothing behind `count` positions is written
  std::int64_t step;
  std::int64_t count;
  /// The rows lie `x_row` apart in x and `sums_row` apart in the sums, and in those of earlier
  /// terms.
  std::int64_t rows, x_row, sums_row;
  const Real* bias;        ///< null, or what is added to each filter's sums after the last term
  bool relu;               ///< negative sums become zero after the bias, NaN stays
  bool find_nan;           ///< whether to look for a NaN among the sums
  bool plus_zero = false;  ///< whether a sum of -0 becomes 0 after the bias
};

/// The largest values among all instruction sets: the filters of a run, and the lanes of a vector.
/// Reads of x end at a multiple of `max_lanes`.
inline constexpr std::int64_t max_run_filters = 8, max_lanes = 16;

/// Returns how many of the `left` filters the next run has: `max`, or else the largest power of
/// two.
inline std::int64_t run_filters(std::int64_t left, std::int64_t max) {
  if (left >= max) return max;
  std::int64_t filters = 1;
  while (2 * filters <= left) filters *= 2;
  return filters;
}

}  // namespace plumb
