// The micro-kernel is compiled once for each instruction set, with internal linkage
// (primitives/vectors.inl says why).
#pragma once

#include "cpu_kernels/conv/micro_kernel.hpp"
#include "cpu_kernels/primitives/vectors.inl"

namespace plumb {
namespace {

/// Returns the vectors of a tile with `filters` filters: registers hold the sums, a vector of x
/// each, and a weight.
constexpr int tile_vectors(int filters) {
  const int in_registers = (PLUMB_REGISTERS - 1) / (filters + 1);
  return in_registers < 8 ? in_registers : 8;
}

/// The packed filters of the term this far ahead are prefetched, which covers the latency of
/// memory, some hundred cycles.
inline constexpr std::int64_t terms_ahead = 48;

/// With short vectors the loop's counter and branch are a larger part of the instructions issued.
inline constexpr int terms_unrolled = PLUMB_REGISTERS == 32 ? 1 : 2;

/// A register tile: `vectors` vectors of positions by `filters` filters.
template <class Real, int filters, int vectors>
struct Tile {
  Vector<Real> sums[filters][vectors] = {};
};

// The loops that follow are unrolled, because compilers otherwise keep the sums in memory to index
// them. With `some` the last vector may have only `count` positions.

/// Loads the sums of earlier terms.
template <bool some, class Real, int filters, int vectors>
[[gnu::always_inline]] inline void load_sums(Tile<Real, filters, vectors>& tile, const Real* from,
                                             std::int64_t step, std::int64_t count) {
#pragma GCC unroll 16
  for (int k = 0; k < filters; ++k)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) {
      const Real* const at = from + k * step + v * lanes<Real>;
      tile.sums[k][v] = some && v == vectors - 1 ? load_lanes(at, count) : load_vector(at);
    }
}

/// Adds the products of terms [begin, end), and moves `w` behind their filters.
template <class Real, int filters, int vectors>
[[gnu::always_inline]] inline void add_terms(Tile<Real, filters, vectors>& tile, const Real* x,
                                             const std::int64_t* offsets, std::int64_t begin,
                                             std::int64_t end, const Real*& w) {
#pragma GCC unroll terms_unrolled
  for (std::int64_t term = begin; term < end; ++term, w += filters) {
    const Real* const from = x + offsets[term];
    // Short vectors leave a tile no load to spare for a prefetch.
    if constexpr (PLUMB_REGISTERS == 32) __builtin_prefetch(w + terms_ahead * filters);
    Vector<Real> values[vectors];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) values[v] = load_vector(from + v * lanes<Real>);
#pragma GCC unroll 16
    for (int k = 0; k < filters; ++k)
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) tile.sums[k][v] += values[v] * w[k];
  }
}

/// Applies bias and ReLU.
template <class Real, int filters, int vectors>
[[gnu::always_inline]] inline void apply_epilogue(Tile<Real, filters, vectors>& tile,
                                                  const Real* bias, bool plus_zero, bool relu) {
  if (bias)
#pragma GCC unroll 16
    for (int k = 0; k < filters; ++k)
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) tile.sums[k][v] += bias[k];
  if (plus_zero)
#pragma GCC unroll 16
    for (int k = 0; k < filters; ++k)
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) tile.sums[k][v] += Vector<Real>{};
  if (relu)
#pragma GCC unroll 16
    for (int k = 0; k < filters; ++k)
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v)
        tile.sums[k][v] = tile.sums[k][v] < 0 ? Vector<Real>{} : tile.sums[k][v];
}

template <bool some, class Real, int filters, int vectors>
[[gnu::always_inline]] inline void store_sums(const Tile<Real, filters, vectors>& tile, Real* to,
                                              std::int64_t step, std::int64_t count) {
#pragma GCC unroll 16
  for (int k = 0; k < filters; ++k)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) {
      Real* const at = to + k * step + v * lanes<Real>;
      if (some && v == vectors - 1)
        store_lanes(at, tile.sums[k][v], count);
      else
        *reinterpret_cast<Vector<Real>*>(at) = tile.sums[k][v];
    }
}

/// Says whether one of the sums is NaN. A NaN stays one in any sum; Inf - Inf makes another, which
/// is a false alarm.
template <class Real, int filters, int vectors>
[[gnu::always_inline]] inline bool may_hold_nan(Tile<Real, filters, vectors>& tile) {
#pragma GCC unroll 16
  for (int k = 0; k < filters; ++k)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v)
      if (k + v > 0) tile.sums[0][0] += tile.sums[k][v];
  Real total = 0;
  for (int i = 0; i < lanes<Real>; ++i) total += tile.sums[0][0][i];
  return total != total;
}

/// Computes one tile from `position` on, from the first term to the last. The run's fields are read
/// before anything is stored: the compiler cannot know that sums are not stored over them.
template <class Real, int filters, int vectors, bool some, bool resumes>
inline bool sum_tile(const MicroKernelRun<Real>& run, std::int64_t position) {
  constexpr int line = 64 / int{sizeof(Real)};
  const std::int64_t step = run.step, terms = run.terms;
  Real* const to = run.sums + position;
  const std::int64_t count = run.count - position - (vectors - 1) * lanes<Real>;
  Tile<Real, filters, vectors> tile;
  if constexpr (resumes) load_sums<some>(tile, run.partial + position, run.partial_step, count);
  const Real* const x = run.x + position;
  const Real* w = run.w;
  const std::int64_t* const offsets = run.offsets;
  // Lines from memory are prefetched a few at a time, between shares of the terms. If they came all
  // at once, the lines to be stored to and those of the next panel would delay what the terms read.
  std::int64_t term = 0, prefetched = 0;
#pragma GCC unroll 1
  for (int part = 1; part <= filters; ++part) {
    for (int i = 0; i < vectors * lanes<Real>; i += line)
      __builtin_prefetch(to + (part - 1) * step + i, 1);
    for (const std::int64_t end = run.prefetch_terms * part / filters; prefetched < end;
         ++prefetched)
      for (int i = 0; i < vectors * lanes<Real>; i += line)
        __builtin_prefetch(x + run.prefetch_distance + run.prefetch_offsets[prefetched] + i);
    const std::int64_t end = terms * part / filters;
    add_terms(tile, x, offsets, term, end, w);
    term = end;
  }
  const bool find_nan = run.find_nan;
  apply_epilogue(tile, run.bias, run.plus_zero, run.relu);
  store_sums<some>(tile, to, step, count);
  return find_nan && may_hold_nan(tile);
}

template <class Real, int filters, int vectors, bool some>
inline bool sum_tile(const MicroKernelRun<Real>& run, std::int64_t position) {
  return run.partial ? sum_tile<Real, filters, vectors, some, true>(run, position)
                     : sum_tile<Real, filters, vectors, some, false>(run, position);
}

/// Computes a tile of `wanted` vectors, at most `vectors`, the last of which may be cut short.
template <class Real, int filters, int vectors>
inline bool sum_some(const MicroKernelRun<Real>& run, std::int64_t position, std::int64_t wanted) {
  if constexpr (vectors > 0) {
    if (wanted == vectors) return sum_tile<Real, filters, vectors, true>(run, position);
    return sum_some<Real, filters, vectors - 1>(run, position, wanted);
  } else {
    return false;
  }
}

template <class Real, int filters>
inline bool sum_filters(MicroKernelRun<Real> run) {
  constexpr int vectors = tile_vectors(filters);
  bool nan = false;
  for (std::int64_t row = 0; row < run.rows; ++row) {
    std::int64_t position = 0;
    for (std::int64_t left = (run.count + lanes<Real> - 1) / lanes<Real>; left > 0;) {
      // The last two tiles share the remaining vectors evenly: a small tile has too few sums for
      // the latency of an FMA, and loads a weight for each of them.
      const std::int64_t wanted =
          left <= vectors ? left : (left < 2 * vectors ? (left + 1) / 2 : vectors);
      if (wanted == vectors && run.count - position >= vectors * lanes<Real>)
        nan |= sum_tile<Real, filters, vectors, false>(run, position);
      else
        nan |= sum_some<Real, filters, vectors>(run, position, wanted);
      position += wanted * lanes<Real>;
      left -= wanted;
    }
    run.x += run.x_row;
    if (run.partial) run.partial += run.sums_row;
    run.sums += run.sums_row;
  }
  return nan;
}

/// Computes the run. Where find_nan asks, it returns whether a sum may be NaN; true may be a false
/// alarm.
template <class Real>
bool micro_kernel(const MicroKernelRun<Real>& run) {
  switch (run.filters) {
#if PLUMB_REGISTERS == 32
    case 8: return sum_filters<Real, 8>(run);
#else
    case 6: return sum_filters<Real, 6>(run);
#endif
    case 4: return sum_filters<Real, 4>(run);
    case 2: return sum_filters<Real, 2>(run);
    default: return sum_filters<Real, 1>(run);
  }
}

/// The most filters of a run. A tile of x is read once for all of them; more would leave too few
/// vectors.
inline constexpr std::int64_t max_filters = PLUMB_REGISTERS == 32 ? 8 : 6;

}  // namespace
}  // namespace plumb
