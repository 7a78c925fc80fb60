// The register tiles of backward weights are compiled once for each instruction set, with internal
// linkage (primitives/vectors.inl says why).
#pragma once

#include <type_traits>
#include <utility>

#include "cpu_kernels/conv/weights_kernels.hpp"
#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/primitives/transpose.inl"
#include "cpu_kernels/primitives/vectors.inl"
#include "cpu_kernels/weights/weights_wide.inl"

namespace plumb {
namespace {

/// Returns the terms of a tile with `rows` vectors of dy, or as many filters: registers hold the
/// sums, what is loaded of dy, and what is loaded of x for one term. More terms than `most` leave
/// too few registers for their addresses.
constexpr int tile_terms(int rows, int most) {
  const int in_registers = (PLUMB_REGISTERS - 2 - rows) / rows;
  return in_registers < most ? in_registers : most;
}

/// The most filters of a tile whose vectors run over positions, and the most vectors of one whose
/// vectors run over filters.
inline constexpr int max_tile_filters = PLUMB_REGISTERS == 32 ? 4 : 2;
inline constexpr int max_filter_vectors = PLUMB_REGISTERS == 32 ? 4 : 2;

// The loops that follow are unrolled, because compilers otherwise keep the sums in memory to index
// them.

/// Adds the products of a vector of positions, of the first `count` of them where it is cut short.
template <bool some, class Real, int filters, int terms>
[[gnu::always_inline]] inline void add_positions(Vector<Real> (&sums)[filters][terms],
                                                 const Real* dy, std::int64_t dy_k,
                                                 const Real* const (&x)[terms], std::int64_t i,
                                                 std::int64_t count) {
  Vector<Real> gradients[filters];
#pragma GCC unroll 16
  for (int k = 0; k < filters; ++k)
    gradients[k] = some ? load_first(dy + k * dy_k + i, count) : load_vector(dy + k * dy_k + i);
#pragma GCC unroll 16
  for (int t = 0; t < terms; ++t) {
    const Vector<Real> value = some ? load_first(x[t] + i, count) : load_vector(x[t] + i);
#pragma GCC unroll 16
    for (int k = 0; k < filters; ++k) sums[k][t] += gradients[k] * value;
  }
}

template <class Real, int filters, int terms>
inline void sum_position_tile(const WeightsRun<Real>& run, std::int64_t k, std::int64_t term) {
  Vector<Real> sums[filters][terms] = {};
  const std::int64_t count = run.count, dy_k = run.dy_k, step = run.step;
  Real* const of_tile = run.sums + (k * run.terms + term) * lanes<Real>;
  if (run.goes_on)
#pragma GCC unroll 16
    for (int f = 0; f < filters; ++f)
#pragma GCC unroll 16
      for (int t = 0; t < terms; ++t)
        sums[f][t] = load_vector(of_tile + (f * run.terms + t) * lanes<Real>);
  for (std::int64_t r = 0; r < run.runs; ++r) {
    const Real* const dy = run.dy + k * dy_k + run.dy_starts[r];
    const Real* x[terms];
#pragma GCC unroll 16
    for (int t = 0; t < terms; ++t) x[t] = run.x + run.x_starts[r] + run.offsets[term + t];
    std::int64_t i = run.first;
#pragma GCC unroll 1
    for (; i + lanes<Real> <= count; i += step)
      add_positions<false, Real, filters, terms>(sums, dy, dy_k, x, i, 0);
    if (i < count) add_positions<true, Real, filters, terms>(sums, dy, dy_k, x, i, count - i);
  }
#pragma GCC unroll 16
  for (int f = 0; f < filters; ++f) {
    Real* const to = of_tile + f * run.terms * lanes<Real>;
#pragma GCC unroll 16
    for (int t = 0; t < terms; ++t) {
      const Vector<Real> before = run.goes_on ? Vector<Real>{} : load_vector(to + t * lanes<Real>);
      *reinterpret_cast<Vector<Real>*>(to + t * lanes<Real>) = before + sums[f][t];
    }
  }
}

/// Sums a tile of `wanted` terms, at most `terms`.
template <class Real, int filters, int terms>
inline void sum_position_terms(const WeightsRun<Real>& run, std::int64_t k, std::int64_t term,
                               std::int64_t wanted) {
  if constexpr (terms > 0) {
    if (wanted == terms) return sum_position_tile<Real, filters, terms>(run, k, term);
    sum_position_terms<Real, filters, terms - 1>(run, k, term, wanted);
  }
}

template <class Real, int filters>
inline void sum_position_filters(const WeightsRun<Real>& run, std::int64_t k) {
  constexpr int most = tile_terms(filters, 8);
  for_each_tile(run.terms, most, [&](std::int64_t term, std::int64_t count) {
    sum_position_terms<Real, filters, most>(run, k, term, count);
  });
}

template <class Real>
void sum_positions(const WeightsRun<Real>& run) {
  std::int64_t k = 0;
  for (; k + max_tile_filters <= run.filters; k += max_tile_filters)
    sum_position_filters<Real, max_tile_filters>(run, k);
  if constexpr (max_tile_filters > 2)
    if (run.filters - k >= 2) {
      sum_position_filters<Real, 2>(run, k);
      k += 2;
    }
  if (k < run.filters) sum_position_filters<Real, 1>(run, k);
}

template <class Real, int vectors, int terms>
inline void sum_filter_tile(const WeightsRun<Real>& run, std::int64_t k, std::int64_t term) {
  Vector<Real> sums[vectors][terms] = {};
  const std::int64_t count = run.count, step = run.filters;
  for (std::int64_t r = 0; r < run.runs; ++r) {
    const Real* dy = run.dy + run.dy_starts[r] + k;
    const Real* x[terms];
#pragma GCC unroll 16
    for (int t = 0; t < terms; ++t) x[t] = run.x + run.x_starts[r] + run.offsets[term + t];
#pragma GCC unroll 1
    for (std::int64_t i = 0; i < count; ++i, dy += step) {
      Vector<Real> gradients[vectors];
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) gradients[v] = load_vector(dy + v * lanes<Real>);
#pragma GCC unroll 16
      for (int t = 0; t < terms; ++t) {
        const Real value = x[t][i];
#pragma GCC unroll 16
        for (int v = 0; v < vectors; ++v) sums[v][t] += gradients[v] * value;
      }
    }
  }
#pragma GCC unroll 16
  for (int t = 0; t < terms; ++t) {
    Real* const to = run.sums + (term + t) * step + k;
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v)
      *reinterpret_cast<Vector<Real>*>(to + v * lanes<Real>) =
          load_vector(to + v * lanes<Real>) + sums[v][t];
  }
}

template <class Real, int vectors, int terms>
inline void sum_filter_terms(const WeightsRun<Real>& run, std::int64_t k, std::int64_t term,
                             std::int64_t wanted) {
  if constexpr (terms > 0) {
    if (wanted == terms) return sum_filter_tile<Real, vectors, terms>(run, k, term);
    sum_filter_terms<Real, vectors, terms - 1>(run, k, term, wanted);
  }
}

template <class Real, int vectors>
inline void sum_filter_vectors(const WeightsRun<Real>& run, std::int64_t k) {
  constexpr int most = tile_terms(vectors, vectors == 1 ? 10 : 8);
  for_each_tile(run.terms, most, [&](std::int64_t term, std::int64_t count) {
    sum_filter_terms<Real, vectors, most>(run, k, term, count);
  });
}

template <class Real>
void sum_filters_of_dy(const WeightsRun<Real>& run) {
  std::int64_t k = 0;
  for (; k + max_filter_vectors * lanes<Real> <= run.filters; k += max_filter_vectors * lanes<Real>)
    sum_filter_vectors<Real, max_filter_vectors>(run, k);
  if constexpr (max_filter_vectors > 2)
    if (run.filters - k >= 2 * lanes<Real>) {
      sum_filter_vectors<Real, 2>(run, k);
      k += 2 * lanes<Real>;
    }
  if (k < run.filters) sum_filter_vectors<Real, 1>(run, k);
}

template <class Stored, class Real>
void pack_gradient_filters(const GradientRows& rows, std::int64_t padded, Real* to) {
  const Stored* const dy = static_cast<const Stored*>(rows.dy);
  for (std::int64_t row = 0; row < rows.rows; ++row, to += rows.columns * padded) {
    const Stored* const from = dy + rows.offsets[row];
    for (std::int64_t q = 0; padded > rows.filters && q < rows.columns; ++q)
      for (std::int64_t k = rows.filters; k < padded; ++k) to[q * padded + k] = 0;
    if constexpr (std::is_same_v<Stored, float> && std::is_same_v<Real, float>)
      if (rows.dy_q == 1 && rows.dy_k != 1) {
        transpose(from, rows.dy_k, rows.filters, rows.columns, to, padded);
        continue;
      }
    if (rows.dy_k == 1) {
      for (std::int64_t q = 0; q < rows.columns; ++q)
        load_row(from + q * rows.dy_q, 1, rows.filters, to + q * padded);
      continue;
    }
    for (std::int64_t k = 0; k < rows.filters; ++k)
      for (std::int64_t q = 0; q < rows.columns; ++q)
        to[q * padded + k] = static_cast<Real>(widen(from[k * rows.dy_k + q * rows.dy_q]));
  }
}

/// Copies a row in vectors, whose last one is filled up with zeros, and prefetches another.
template <class Real>
inline void copy_padded(const Real* from, std::int64_t count, std::int64_t ahead, Real* to) {
  for (std::int64_t i = 0; i < count; i += lanes<Real>) {
    __builtin_prefetch(from + i + ahead);
    *reinterpret_cast<Vector<Real>*>(to + i) = load_lanes(from + i, count - i);
  }
}

template <class Stored, class Real>
void pack_gradient_positions(const GradientRows& rows, std::int64_t pitch, std::int64_t step,
                             Real* to) {
  const Stored* const dy = static_cast<const Stored*>(rows.dy);
  // Rows are written one after another, each over what the one before wrote beyond its end.
  if constexpr (std::is_same_v<Stored, Real>)
    if (rows.dy_q == 1) {
      for (std::int64_t k = 0; k < rows.filters; ++k)
        for (std::int64_t row = 0; row < rows.rows; ++row) {
          Real* const at = to + k * step + row * pitch;
          copy_padded(dy + rows.offsets[row] + k * rows.dy_k, rows.columns, rows.dy_k, at);
          for (std::int64_t i = in_whole_vectors<Real>(rows.columns); i < pitch; ++i) at[i] = 0;
        }
      return;
    }
  for (std::int64_t k = 0; k < rows.filters; ++k)
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      Real* const at = to + k * step + row * pitch;
      load_row(dy + rows.offsets[row] + k * rows.dy_k, rows.dy_q, rows.columns, at);
      for (std::int64_t i = rows.columns; i < pitch; ++i) at[i] = 0;
    }
}

template <class Real>
void pack_filters_of_dy(const GradientRows& rows, std::int64_t padded, Real* to) {
  with_stored<Real>(
      rows.dtype, [&](auto stored) { pack_gradient_filters<decltype(stored)>(rows, padded, to); });
}
template <class Real>
void pack_positions_of_dy(const GradientRows& rows, std::int64_t pitch, std::int64_t step,
                          Real* to) {
  with_stored<Real>(rows.dtype, [&](auto stored) {
    pack_gradient_positions<decltype(stored)>(rows, pitch, step, to);
  });
}

/// Adds the upper half of the lanes to the lower, until one is left.
template <class Real, int count, int... lane>
inline Real sum_of_lanes(const Real* from, std::integer_sequence<int, lane...>) {
  typedef Real Lanes
      __attribute__((vector_size(count * sizeof(Real)), aligned(sizeof(Real)), may_alias));
  const Lanes all = *reinterpret_cast<const Lanes*>(from);
  const auto halves = __builtin_shufflevector(all, all, lane...) +
                      __builtin_shufflevector(all, all, (lane + count / 2)...);
  if constexpr (count == 2) return all[0] + all[1];
  if constexpr (count == 4) return halves[0] + halves[1];
  if constexpr (count > 4) {
    Real left[count / 2];
    __builtin_memcpy(left, &halves, sizeof(left));
    return sum_of_lanes<Real, count / 2>(left, std::make_integer_sequence<int, count / 4>{});
  }
}

template <class Real>
void add_lanes(const Real* sums, std::int64_t count, Real* to) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = sum_of_lanes<Real, lanes<Real>>(sums + i * lanes<Real>,
                                            std::make_integer_sequence<int, lanes<Real> / 2>{});
}

template <class Real>
constexpr WeightsKernels<Real> weights_kernels_for{
    .lanes = lanes<Real>,
    .filters = max_tile_filters,
    .sum_positions = &sum_positions<Real>,
    .sum_filters = &sum_filters_of_dy<Real>,
    .pack_filters = &pack_filters_of_dy<Real>,
    .pack_positions = &pack_positions_of_dy<Real>,
    .add_lanes = &add_lanes<Real>,
    .tile_channels = max_channel_vectors* lanes<Real>,
    .sum_channels = &sum_channels_of_x<Real>,
    .turn = &turn<Real>};

}  // namespace
}  // namespace plumb
