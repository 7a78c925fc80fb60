// Fields are convolved in register tiles of many output rows by one vector of columns. For a column
// of the filter, the weights of up to nine rows stay in registers while the tile's input passes by,
// a vector at a time: each is loaded once and used for as many output rows. Loads for the columns
// of the filter straddle two cache lines, and so take two turns of a load port; with 16 rows by 5
// taps there are 80 FMAs for 20 of them.
#pragma once

#include <type_traits>

#include "cpu_kernels/conv/field_kernels.hpp"
#include "cpu_kernels/fields/slab.inl"
#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/primitives/vectors.inl"

#if defined __SSE2__ && !defined __AVX2__
#include <emmintrin.h>
#endif

namespace plumb {
namespace {

/// Registers hold a sum for each row of a tile, a weight for each row of a block of taps, and a
/// vector of x. Twice as many sums as the two units' FMAs take cycles hide their latency.
inline constexpr int field_rows = PLUMB_REGISTERS == 32 ? 16 : 8;
inline constexpr int field_tap_rows = PLUMB_REGISTERS == 32 ? 9 : 5;

#if defined __AVX512F__
inline void stream_vector(float* to, Vector<float> values) { _mm512_stream_ps(to, values); }
inline void stream_vector(double* to, Vector<double> values) { _mm512_stream_pd(to, values); }
#elif defined __AVX2__
inline void stream_vector(float* to, Vector<float> values) { _mm256_stream_ps(to, values); }
inline void stream_vector(double* to, Vector<double> values) { _mm256_stream_pd(to, values); }
#elif defined __SSE2__
inline void stream_vector(float* to, Vector<float> values) { _mm_stream_ps(to, values); }
inline void stream_vector(double* to, Vector<double> values) { _mm_stream_pd(to, values); }
#else
template <class Real>
inline void stream_vector(Real* to, Vector<Real> values) {
  *reinterpret_cast<Vector<Real>*>(to) = values;
}
#endif

/// Makes streamed stores visible before whatever the thread stores next.
inline void end_streaming() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

/// Returns the vector at `from` in a register: compilers otherwise load it again for each product.
template <class Real>
[[gnu::always_inline]] inline Vector<Real> load_once(const Real* from) {
  Vector<Real> value = load_vector(from);
#if defined __AVX512F__
  asm("" : "+v"(value));
#elif defined __SSE2__
  asm("" : "+x"(value));
#endif
  return value;
}

/// Returns where row `row` < 8 lies behind `from`. One, three, five and seven steps in registers
/// reach all eight without an addition, which would take turns of the units that multiply.
struct RowSteps {
  std::int64_t one, three, five, seven;  ///< in bytes
  const char* row(const char* from, int row) const {
    switch (row) {
      case 1: return from + one;
      case 2: return from + 2 * one;
      case 3: return from + three;
      case 4: return from + 4 * one;
      case 5: return from + five;
      case 6: return from + 2 * three;
      case 7: return from + seven;
      default: return from;
    }
  }
};

/// Adds the products of columns of taps to the sums of a tile. The products of one row of x go to
/// as many sums as there are taps, and those of the next row wait for most of them: with less than
/// eight taps the tile's halves take turns, and load the rows between them twice.
template <int rows, int taps, class Real>
[[gnu::always_inline]] inline void add_columns(Vector<Real> (&sums)[rows], const Real* x,
                                               std::int64_t x_row, const TapColumns& columns,
                                               const Real* w, SlabPart& beside,
                                               std::int64_t share) {
  constexpr int parts = taps < 8 ? 2 : 1, of_part = rows / parts;
  const std::int64_t one = x_row * std::int64_t{sizeof(Real)}, eight = 8 * one;
  const RowSteps steps{one, 3 * one, 5 * one, 7 * one};
  const std::int64_t* const end = columns.x + columns.columns;
#pragma GCC unroll 1
  for (const std::int64_t* column = columns.x; column < end; ++column, w += taps) {
    Vector<Real> weights[taps];
#pragma GCC unroll 16
    for (int tap = 0; tap < taps; ++tap) weights[tap] = w[tap] - Vector<Real>{};
    const char* from[3] = {reinterpret_cast<const char*>(x + *column)};
    from[1] = from[0] + eight, from[2] = from[1] + eight;
#pragma GCC unroll 32
    for (int row = 0; row < of_part + taps - 1; ++row)
#pragma GCC unroll 2
      for (int part = 0; part < parts; ++part) {
        const int at = part * of_part + row;
        const Vector<Real> value =
            load_once(reinterpret_cast<const Real*>(steps.row(from[at / 8], at % 8)));
#pragma GCC unroll 16
        for (int tap = 0; tap < taps; ++tap)
          if (row >= tap && row - tap < of_part) sums[at - tap] += value * weights[tap];
      }
    copy_part<Real>(beside, share);
  }
}

template <int rows, int taps, class Real>
[[gnu::always_inline]] inline void add_taps(Vector<Real> (&sums)[rows], const Real* x,
                                            std::int64_t x_row, const TapColumns& columns,
                                            const Real* w, SlabPart& beside, std::int64_t share) {
  if constexpr (taps > 0) {
    if (columns.rows == taps)
      add_columns<rows, taps>(sums, x, x_row, columns, w, beside, share);
    else
      add_taps<rows, taps - 1>(sums, x, x_row, columns, w, beside, share);
  }
}

/// Where a tile lies among a run's outputs, and how much of it is wanted.
struct FieldTile {
  std::int64_t row, rows, column, count;
};

/// Stores rows of the first `count` lanes.
template <class Real>
inline void finish_rows(const FieldRun<Real>& run, const FieldTile& tile, const Real* sums) {
  Real* to = static_cast<Real*>(run.y) + tile.row * run.y_row + tile.column;
  for (std::int64_t i = 0; i < tile.rows; ++i, sums += lanes<Real>) {
    Vector<Real> values = load_vector(sums);
    if (run.accumulate) values += load_lanes(to, tile.count);
    if (run.relu) values = values < 0 ? Vector<Real>{} : values;
    store_lanes(to, values, tile.count);
    to += run.row_step * run.y_row;
  }
}

/// Applies accumulation and ReLU to the sums, and stores them, rounded once.
template <class Stored, class Real>
inline void finish_stored(const FieldRun<Real>& run, const FieldTile& tile, const Real* sums) {
  if constexpr (std::is_same_v<Stored, Real>)
    if (run.y_column == 1) return finish_rows(run, tile, sums);
  Stored* to = static_cast<Stored*>(run.y) + tile.row * run.y_row + tile.column * run.y_column;
  for (std::int64_t i = 0; i < tile.rows; ++i, to += run.row_step * run.y_row)
    for (std::int64_t j = 0; j < tile.count; ++j) {
      Real value = sums[i * lanes<Real> + j];
      Stored& stored = to[j * run.y_column];
      if (run.accumulate) value += static_cast<Real>(widen(stored));
      stored = narrow<Stored>(run.relu && value < 0 ? Real{0} : value);
    }
}

template <class Real>
[[gnu::noinline]] void finish_tile(const FieldRun<Real>& run, const FieldTile& tile, Real* sums) {
  if (run.correct)
    run.correct(run.context, tile.row, tile.rows, tile.column, tile.count, sums, lanes<Real>);
  with_stored<Real>(run.dtype,
                    [&](auto stored) { finish_stored<decltype(stored)>(run, tile, sums); });
}

/// How a tile's sums get to y.
enum class Finish { store, stream, general };

/// Returns how whole tiles of rows from `row` on are finished. Streamed vectors are aligned.
template <class Real>
inline Finish finish_of(const FieldRun<Real>& run, std::int64_t row, bool all_rows) {
  if (!run.plain || run.accumulate || run.relu || !all_rows) return Finish::general;
  const Real* const to = static_cast<Real*>(run.y) + row * run.y_row;
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  const auto step = static_cast<std::uintptr_t>(run.row_step * run.y_row) * sizeof(Real);
  const bool aligned = ((address | step) & (sizeof(Vector<Real>) - 1)) == 0;
  return run.stream && aligned ? Finish::stream : Finish::store;
}

/// Computes the tiles of `rows` rows from `row` on, of which `wanted` are stored. What is done for
/// each tile besides its products is little, and without a call: the units that multiply have
/// products waiting for some fifty cycles, and idle when more instructions than that come between.
template <int rows, class Real>
void sum_field_row(const FieldRun<Real>& run, std::int64_t row, std::int64_t wanted) {
  const Finish finish = finish_of(run, row, wanted == rows);
  const std::int64_t x_row = run.x_row * run.row_step, y_row = run.row_step * run.y_row;
  const std::int64_t share = run.column_share;
  const Vector<Real> bias = run.bias - Vector<Real>{};
  const TapColumns* const end = run.taps + run.taps_count;
  const Real* x = run.x + row * run.x_row;
  Real* y = static_cast<Real*>(run.y) + row * run.y_row;
  for (std::int64_t column = 0; column < run.columns;
       column += lanes<Real>, x += lanes<Real>, y += lanes<Real>) {
    SlabPart beside{};
    if (run.beside) beside = take_share(*run.beside, run.share);
    Vector<Real> sums[rows];
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) sums[i] = bias;
    for (const TapColumns* taps = run.taps; taps < end; ++taps)
      add_taps<rows, field_tap_rows>(sums, x, x_row, *taps, run.w + taps->w, beside, share);
    copy_part<Real>(beside, std::numeric_limits<std::int64_t>::max());
    const std::int64_t count = lesser(lanes<Real>, run.columns - column);
    if (finish == Finish::general || count < lanes<Real>) {
      alignas(64) Real staged[rows * lanes<Real>];
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i)
        *reinterpret_cast<Vector<Real>*>(staged + i * lanes<Real>) = sums[i];
      finish_tile(run, {.row = row, .rows = wanted, .column = column, .count = count}, staged);
      continue;
    }
    Real* to = y;
    if (finish == Finish::stream)
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i, to += y_row) stream_vector(to, sums[i]);
    else
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i, to += y_row) *reinterpret_cast<Vector<Real>*>(to) = sums[i];
  }
}

template <class Real>
void sum_field(const FieldRun<Real>& run) {
  for (std::int64_t first = 0; first < lesser(run.row_step, run.rows); ++first)
    for (std::int64_t row = first; row < run.rows;) {
      const std::int64_t left = (run.rows - row - 1) / run.row_step + 1;
      const std::int64_t rows = lesser(left, field_rows);
      if (rows > field_rows / 2)
        sum_field_row<field_rows>(run, row, rows);
      else
        sum_field_row<field_rows / 2>(run, row, rows);
      row += rows * run.row_step;
    }
  if (run.stream) end_streaming();
}

template <class Real>
constexpr FieldKernels<Real> field_kernels_for{.lanes = lanes<Real>,
                                               .rows = field_rows,
                                               .tap_rows = field_tap_rows,
                                               .load = &load_slab<Real>,
                                               .sum = &sum_field<Real>};

}  // namespace
}  // namespace plumb
