// Sums stay in registers for all taps of some lines: some vectors of columns of each row.
// Everything that several instruction sets are compiled for is inlined into the function of each.
#include "kokkos_kernels/row_segments.hpp"

namespace plumb::kokkos {
namespace {

template <class Sum, int vector_bytes>
struct Vectors {
  using Vector [[gnu::vector_size(vector_bytes)]] = Sum;
  // As it lies among elements. With memcpy() GCC 12 keeps vectors of 32 bytes in memory.
  using InMemory [[gnu::vector_size(vector_bytes), gnu::aligned(alignof(Sum)), gnu::may_alias]] =
      Sum;
  static constexpr int lanes = vector_bytes / static_cast<int>(sizeof(Sum));
};

/// Adds a line's taps to the sums of the rows from `first` to `last`.
template <class Sum, int vector_bytes, int first, int last, int rows, int vectors, class Vector>
[[gnu::always_inline]] inline void add_taps(Vector (&sums)[rows][vectors], const Sum* line,
                                            const Sum* taps, const LinesUnderRows<Sum>& work) {
  using V = Vectors<Sum, vector_bytes>;
  for (std::int64_t s = 0; s < work.tap_count; ++s, line += work.dilation, ++taps) {
    Vector inputs[vectors];
    for (int v = 0; v < vectors; ++v)
      inputs[v] = *reinterpret_cast<const typename V::InMemory*>(line + v * V::lanes);
    for (int row = first; row <= last; ++row) {
      const Sum tap = taps[(row - first) * work.tap_step];
      for (int v = 0; v < vectors; ++v) sums[row][v] += tap * inputs[v];
    }
  }
}

/// Finds the line's rows among all that there may be.
template <class Sum, int vector_bytes, int pair, int rows, int vectors, class Vector>
[[gnu::always_inline]] inline void add_line(Vector (&sums)[rows][vectors], const Line<Sum>& line,
                                            int column, const LinesUnderRows<Sum>& work) {
  constexpr int first = pair / rows, last = pair % rows;
  if constexpr (first < rows) {
    if constexpr (first <= last)
      if (line.first == first && line.last == last)
        return add_taps<Sum, vector_bytes, first, last>(sums, line.inputs + column, line.taps,
                                                        work);
    add_line<Sum, vector_bytes, pair + 1>(sums, line, column, work);
  }
}

/// Some vectors of columns of `rows` rows, from a column on.
template <class Sum, int vector_bytes, int rows, int vectors>
[[gnu::always_inline]] inline void add_vectors(const LinesUnderRows<Sum>& work, int column) {
  using V = Vectors<Sum, vector_bytes>;
  const auto kept = [&](int row, int v) {
    return reinterpret_cast<typename V::InMemory*>(work.sums + row * segment_columns<Sum> + column +
                                                   v * V::lanes);
  };
  typename V::Vector sums[rows][vectors];
  for (int row = 0; row < rows; ++row)
    for (int v = 0; v < vectors; ++v) sums[row][v] = *kept(row, v);
  for (int i = 0; i < work.count; ++i)
    add_line<Sum, vector_bytes, 0>(sums, work.lines[i], column, work);
  for (int row = 0; row < rows; ++row)
    for (int v = 0; v < vectors; ++v) *kept(row, v) = sums[row][v];
}

/// All columns, `vectors` of them at once.
template <class Sum, int vector_bytes, int rows, int vectors>
[[gnu::always_inline]] inline void add_columns(const LinesUnderRows<Sum>& work) {
  constexpr int lanes = Vectors<Sum, vector_bytes>::lanes;
  static_assert(segment_granule<Sum> % lanes == 0);
  int first = 0;
  for (; first + vectors * lanes <= work.columns; first += vectors * lanes)
    add_vectors<Sum, vector_bytes, rows, vectors>(work, first);
  for (; first < work.columns; first += lanes) add_vectors<Sum, vector_bytes, rows, 1>(work, first);
}

/// `sums` vectors of sums fit into the registers. Rows that are not there cost as much as others.
template <class Sum, int vector_bytes, int sums>
[[gnu::always_inline]] inline void add_to_rows(const LinesUnderRows<Sum>& work) {
  if (work.rows == 1)
    add_columns<Sum, vector_bytes, 1, sums / 2>(work);
  else
    add_columns<Sum, vector_bytes, segment_rows, sums / segment_rows>(work);
}

/// A zero times what is finite leaves zeros as they are.
template <class Sum, int vector_bytes>
[[gnu::always_inline]] inline bool are_finite(const Sum* sums, int columns) {
  using Vector [[gnu::vector_size(vector_bytes)]] = Sum;
  constexpr int lanes = vector_bytes / static_cast<int>(sizeof(Sum));
  using InMemory [[gnu::vector_size(vector_bytes), gnu::aligned(alignof(Sum)), gnu::may_alias]] =
      Sum;
  Vector zeros = {};
  for (int first = 0; first < columns; first += lanes)
    zeros += *reinterpret_cast<const InMemory*>(sums + first) * Sum{0};
  Sum zero = 0;
  for (int lane = 0; lane < lanes; ++lane) zero += zeros[lane];
  return zero == 0;
}

template <class Sum>
void add_lines(const LinesUnderRows<Sum>& work) {
  add_to_rows<Sum, 16, 8>(work);
}
template <class Sum>
bool all_finite(const Sum* sums, int columns) {
  return are_finite<Sum, 16>(sums, columns);
}
#ifdef __x86_64__
template <class Sum>
[[gnu::target("avx2,fma")]] void add_lines_avx2(const LinesUnderRows<Sum>& work) {
  add_to_rows<Sum, 32, 8>(work);
}
template <class Sum>
[[gnu::target("avx2,fma")]] bool all_finite_avx2(const Sum* sums, int columns) {
  return are_finite<Sum, 32>(sums, columns);
}
template <class Sum>
[[gnu::target("avx512f,fma")]] void add_lines_avx512(const LinesUnderRows<Sum>& work) {
  add_to_rows<Sum, 64, 16>(work);
}
template <class Sum>
[[gnu::target("avx512f,fma")]] bool all_finite_avx512(const Sum* sums, int columns) {
  return are_finite<Sum, 64>(sums, columns);
}
#endif

}  // namespace

template <class Sum>
RowLoops<Sum> row_loops_for([[maybe_unused]] std::string_view instruction_set) {
#ifdef __x86_64__
  if (instruction_set == "avx512") return {add_lines_avx512<Sum>, all_finite_avx512<Sum>};
  if (instruction_set == "avx2") return {add_lines_avx2<Sum>, all_finite_avx2<Sum>};
#endif
  return {add_lines<Sum>, all_finite<Sum>};
}
template RowLoops<float> row_loops_for(std::string_view instruction_set);
template RowLoops<double> row_loops_for(std::string_view instruction_set);

double flop_per_cycle_of(std::string_view instruction_set) {
  return instruction_set == "avx512" ? 64 : instruction_set == "avx2" ? 32 : 8;
}

}  // namespace plumb::kokkos
