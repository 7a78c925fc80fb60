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

/// Returns by how many rows the products of each tap come after those of the tap before. A sum
/// gets one product of each tap, and the next of them waits for four cycles, in which two units
/// begin eight others: with few taps they are made rows later. The rows between stay in registers.
constexpr int tap_delay(int rows, int taps) {
  int delay = 0;
  while (taps > 1 && taps * (delay + 1) < 8 &&
         rows + taps + (taps - 1) * (delay + 1) + 1 < PLUMB_REGISTERS)
    ++delay;
  return delay;
}

/// Loads row `step` of x under a tile, and adds the products that have their turn: those of each
/// tap with another row. Rows are addressed by one and three steps from every fourth: there are few
/// registers for addresses, and the units of some machines that add to them also multiply.
template <int step, int rows, int taps, class Real>
[[gnu::always_inline]] inline void add_rows(Vector<Real> (&sums)[rows], const char* from,
                                            std::int64_t x_row, std::int64_t three_rows,
                                            const Vector<Real> (&weights)[taps],
                                            Vector<Real> (&values)[rows + taps - 1]) {
  constexpr int delay = tap_delay(rows, taps), lines = rows + taps - 1;
  if constexpr (step < lines + (taps - 1) * delay) {
    if constexpr (step < lines) {
      if constexpr (step > 0 && step % 4 == 0) {
        from += 4 * x_row;
        asm("" : "+r"(from));
      }
      constexpr int after = step % 4;
      values[step] = load_once(
          reinterpret_cast<const Real*>(from + (after == 3 ? three_rows : after * x_row)));
    }
#pragma GCC unroll 16
    for (int tap = 0; tap < taps; ++tap) {
      const int line = step - tap * delay, row = line - tap;
      if (line >= 0 && line < lines && row >= 0 && row < rows)
        sums[row] += values[line] * weights[tap];
    }
    add_rows<step + 1, rows, taps, Real>(sums, from, x_row, three_rows, weights, values);
  }
}

/// What is copied beside a tile: a block, so many vectors with each column of taps before `end`.
struct Beside {
  SlabBlock block;
  std::int64_t chunk_vectors;
  const TapColumn* end;
};

/// Returns the next block, or nothing where none is left.
template <class Real>
[[gnu::always_inline]] inline Beside take_beside(SlabLoad<Real>& load, const TapColumn* columns) {
  if (load.left == 0) return {{}, 0, columns};
  return {take_block(load), load.chunk_vectors, columns + load.chunks};
}

/// Adds the products of columns of taps to the sums of a tile.
template <int rows, int taps, class Real>
[[gnu::always_inline]] inline void add_columns(Vector<Real> (&sums)[rows], const Real* x,
                                               std::int64_t x_row, const TapColumns& columns,
                                               const Real* w, const Beside* beside) {
  const std::int64_t one = x_row * std::int64_t{sizeof(Real)}, three = 3 * one;
  const TapColumn* const end = columns.first + columns.columns;
#pragma GCC unroll 1
  for (const TapColumn* column = columns.first; column < end; ++column, w += taps) {
    Vector<Real> weights[taps], values[rows + taps - 1];
#pragma GCC unroll 16
    for (int tap = 0; tap < taps; ++tap) weights[tap] = w[tap] - Vector<Real>{};
    add_rows<0, rows, taps, Real>(sums, reinterpret_cast<const char*>(x + column->x), one, three,
                                  weights, values);
    if (column < beside->end) copy_chunk<Real>(beside->block, *column, beside->chunk_vectors);
  }
}

template <int rows, int taps, class Real>
[[gnu::always_inline]] inline void add_taps(Vector<Real> (&sums)[rows], const Real* x,
                                            std::int64_t x_row, const TapColumns& columns,
                                            const Real* w, const Beside* beside) {
  if constexpr (taps > 0) {
    if (columns.rows == taps)
      add_columns<rows, taps>(sums, x, x_row, columns, w, beside);
    else
      add_taps<rows, taps - 1>(sums, x, x_row, columns, w, beside);
  }
}

/// Adds the products of two lines of x with columns of taps, for ordered sums: line `line` of
/// either half of a tile. The halves' sums wait for nothing of each other.
template <int line, int half, int taps, class Real>
[[gnu::always_inline]] inline void add_two_lines(Vector<Real> (&sums)[2 * half], const Real* x,
                                                 const Real* below, const TapColumn* column,
                                                 std::int64_t columns, const Real* w) {
#pragma GCC unroll 1
  for (const TapColumn* const end = column + columns; column < end; ++column, w += taps) {
    const Vector<Real> upper = load_vector(x + column->x), lower = load_vector(below + column->x);
#pragma GCC unroll 16
    for (int tap = 0; tap < taps; ++tap) {
      const int row = line - tap;
      if (row < 0 || row >= half) continue;
      const Vector<Real> weight = w[tap] - Vector<Real>{};
      sums[row] += upper * weight;
      sums[half + row] += lower * weight;
    }
  }
}

/// Adds the products of a block of taps in the order r, s: lines of x from `line` on pass by, and
/// each meets all columns before the next line. Output row a meets tap row i in line a + i.
template <int line, int half, int taps, class Real>
[[gnu::always_inline]] inline void add_lines(Vector<Real> (&sums)[2 * half], const Real* x,
                                             std::int64_t x_row, const TapColumns* block,
                                             const Real* w) {
  if constexpr (line < half + taps - 1) {
    const Real* const below = x + half * x_row;
    add_two_lines<line, half, taps>(sums, x, below, block->first, block->columns, w + block->w);
    if constexpr (taps > 1)
      if (block->joined)
        add_two_lines<line, half, taps - 1>(sums, x, below, block[1].first, block[1].columns,
                                            w + block[1].w);
    add_lines<line + 1, half, taps>(sums, x + x_row, x_row, block, w);
  }
}

/// The same with weights in registers: those of 3 x 3 taps beside sixteen sums.
template <int line, int half, class Real>
[[gnu::always_inline]] inline void add_lines_of_3x3(Vector<Real> (&sums)[2 * half], const Real* x,
                                                    std::int64_t x_row, const TapColumn* columns,
                                                    const Vector<Real> (&weights)[9]) {
  if constexpr (line < half + 2) {
#pragma GCC unroll 3
    for (int column = 0; column < 3; ++column) {
      const Real* const from = x + columns[column].x;
      const Vector<Real> upper = load_vector(from), lower = load_vector(from + half * x_row);
#pragma GCC unroll 3
      for (int tap = 0; tap < 3; ++tap) {
        const int row = line - tap;
        if (row < 0 || row >= half) continue;
        sums[row] += upper * weights[3 * column + tap];
        sums[half + row] += lower * weights[3 * column + tap];
      }
    }
    add_lines_of_3x3<line + 1, half, Real>(sums, x + x_row, x_row, columns, weights);
  }
}

/// Adds those of one block, and of the one that is joined with it.
template <int rows, int taps, class Real>
[[gnu::always_inline]] inline void add_ordered(Vector<Real> (&sums)[rows], const Real* x,
                                               std::int64_t x_row, const TapColumns* block,
                                               const Real* w, const Beside* beside) {
  if constexpr (taps == 1) {
    add_columns<rows, 1>(sums, x, x_row, *block, w + block->w, beside);
  } else {
    if (block->rows != taps) return add_ordered<rows, taps - 1>(sums, x, x_row, block, w, beside);
    if (taps == 3 && PLUMB_REGISTERS == 32 && block->columns == 3 && !block->joined) {
      Vector<Real> weights[9];
#pragma GCC unroll 9
      for (int i = 0; i < 9; ++i) weights[i] = w[block->w + i] - Vector<Real>{};
      add_lines_of_3x3<0, rows / 2, Real>(sums, x, x_row, block->first, weights);
    } else {
      add_lines<0, rows / 2, taps>(sums, x, x_row, block, w);
    }
    const TapColumn* column = block->first;
    const TapColumn* const end =
        column + block->columns + (block->joined ? block[1].columns : std::int64_t{0});
    for (; column < end && column < beside->end; ++column)
      copy_chunk<Real>(beside->block, *column, beside->chunk_vectors);
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
      if (run.relu && value < 0) value = 0;
      stored = run.ordered ? narrowed<true, Stored>(value) : narrow<Stored>(value);
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
template <int rows, bool ordered, class Real>
void sum_field_row(const FieldRun<Real>& run, std::int64_t row, std::int64_t wanted) {
  const Finish finish = finish_of(run, row, wanted == rows);
  const std::int64_t x_row = run.x_row * run.row_step, y_row = run.row_step * run.y_row;
  const Vector<Real> bias = run.bias - Vector<Real>{};
  const TapColumns* const end = run.taps + run.taps_count;
  const Real* x = run.x + row * run.x_row;
  Real* y = static_cast<Real*>(run.y) + row * run.y_row;
  for (std::int64_t column = 0; column < run.columns;
       column += lanes<Real>, x += lanes<Real>, y += lanes<Real>) {
    const Beside taken = take_beside(*run.beside, run.taps->first);
    const Beside* beside = &taken;
    asm("" : "+r"(beside) : "m"(taken));
    Vector<Real> sums[rows];
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) sums[i] = bias;
    if constexpr (ordered) {
      for (const TapColumns* taps = run.taps; taps < end; taps += taps->joined ? 2 : 1)
        add_ordered<rows, field_tap_rows>(sums, x, x_row, taps, run.w, beside);
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) sums[i] += run.last - Vector<Real>{};
    } else {
      for (const TapColumns* taps = run.taps; taps < end; ++taps)
        add_taps<rows, field_tap_rows>(sums, x, x_row, *taps, run.w + taps->w, beside);
    }
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

template <bool ordered, class Real>
void sum_rows(const FieldRun<Real>& run) {
  for (std::int64_t first = 0; first < lesser(run.row_step, run.rows); ++first)
    for (std::int64_t row = first; row < run.rows;) {
      const std::int64_t left = (run.rows - row - 1) / run.row_step + 1;
      const std::int64_t rows = lesser(left, field_rows);
      if (rows > field_rows / 2)
        sum_field_row<field_rows, ordered>(run, row, rows);
      else
        sum_field_row<field_rows / 2, ordered>(run, row, rows);
      row += rows * run.row_step;
    }
}

template <class Real>
void sum_field(const FieldRun<Real>& run) {
  (run.ordered ? sum_rows<true, Real> : sum_rows<false, Real>)(run);
}

template <class Real>
constexpr FieldKernels<Real> field_kernels_for{.lanes = lanes<Real>,
                                               .rows = field_rows,
                                               .tap_rows = field_tap_rows,
                                               .begin_load = &begin_slab<Real>,
                                               .end_load = &end_slab<Real>,
                                               .sum = &sum_field<Real>,
                                               .end_stores = &end_streaming};

}  // namespace
}  // namespace plumb
