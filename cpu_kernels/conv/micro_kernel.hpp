// The sums of products that every convolution of the CPU comes down to, in register tiles:
//
//   sums[k][i] = sum over terms of x[offsets[term] + i] w[term][k]
//
// Vectors run over positions i, neighbours in memory for every term; a tile is a few vectors by a
// few filters, and stays in registers from the first term to the last. It is compiled once for each
// instruction set (micro_kernel.inl); what x is, planes or panels, is the caller's business.
#pragma once

#include <cstdint>

namespace plumb {

/// One run of sums: `count` positions of each of `filters` filters, `rows` times.
template <class Real>
struct MicroKernelRun {
  const Real* x;                ///< may be read up to a multiple of the longest vector
  const std::int64_t* offsets;  ///< of each term, in elements
  std::int64_t terms;
  /// Terms that each tile fetches on the way, `ahead` of its positions.
  const std::int64_t* prefetch_offsets;
  std::int64_t prefetch_terms, prefetch_distance;
  const Real* w;         ///< [term][filters]
  std::int64_t filters;  ///< as run_filters() says
  const Real* partial;   ///< null, or sums of earlier terms to go on from: [filter][partial_step]
  std::int64_t partial_step;
  Real* sums;  ///< [filter][step]; what lies behind `count` positions stays as it is
  std::int64_t step;
  std::int64_t count;
  /// The same again for so many rows, that far apart in x and in the sums; there is no `begin`
  /// then.
  std::int64_t rows, x_row, sums_row;
  const Real* bias;  ///< null, or what is added at last to each filter's sums
  bool relu;         ///< at the very last: negative sums become zero, NaN stays
  bool find_nan;     ///< whether the caller wants to know of a NaN among the sums
};

/// The most filters of a run anywhere. Runs are read in multiples of so many positions.
inline constexpr std::int64_t max_run_filters = 8, max_lanes = 16;

/// Filters of a run that begins with `left` still to do: `max`, or a power of two below.
inline std::int64_t run_filters(std::int64_t left, std::int64_t max) {
  if (left >= max) return max;
  std::int64_t filters = 1;
  while (2 * filters <= left) filters *= 2;
  return filters;
}

}  // namespace plumb
