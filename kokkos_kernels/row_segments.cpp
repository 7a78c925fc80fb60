// Sums stay in registers for all taps of some lines: some vectors of columns of each row.
// Everything that several instruction sets are compiled for is inlined into the function of each.
#include "kokkos_kernels/row_segments.hpp"

#include <cstring>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

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

/// Adds line number `line` of a panel to the sums of the rows from `first` to `last`.
template <class Sum, int vector_bytes, int first, int last, int rows, int vectors, class Vector>
[[gnu::always_inline]] inline void add_line(Vector (&sums)[rows][vectors],
                                            const PanelsUnderRows<Sum>& work, const Panel& panel,
                                            int line, int column) {
  using V = Vectors<Sum, vector_bytes>;
  const Sum* inputs = work.lines[panel.first_line + line];
  if (!inputs) return;
  inputs += column;
  const Sum* taps = work.taps + panel.first_tap + (line - last) * work.row_step;
  for (std::int64_t s = 0; s < work.tap_count; ++s, inputs += work.dilation, ++taps) {
    Vector values[vectors];
    for (int v = 0; v < vectors; ++v)
      values[v] = *reinterpret_cast<const typename V::InMemory*>(inputs + v * V::lanes);
    for (int row = first; row <= last; ++row) {
      const Sum tap = taps[(last - row) * work.row_step];
      for (int v = 0; v < vectors; ++v) sums[row][v] += tap * values[v];
    }
  }
}

/// Adds a panel: which rows a line is under is known here, but for how many lines are under all.
template <class Sum, int vector_bytes, int rows, int vectors, class Vector>
[[gnu::always_inline]] inline void add_panel(Vector (&sums)[rows][vectors],
                                             const PanelsUnderRows<Sum>& work, const Panel& panel,
                                             int column) {
  const int filter_rows = panel.filter_rows;
  if constexpr (rows == 1) {
    for (int line = 0; line < filter_rows; ++line)
      add_line<Sum, vector_bytes, 0, 0>(sums, work, panel, line, column);
  } else {
    static_assert(rows == 4);
    add_line<Sum, vector_bytes, 0, 0>(sums, work, panel, 0, column);
    if (filter_rows == 1) {
      add_line<Sum, vector_bytes, 1, 1>(sums, work, panel, 1, column);
      add_line<Sum, vector_bytes, 2, 2>(sums, work, panel, 2, column);
    } else if (filter_rows == 2) {
      add_line<Sum, vector_bytes, 0, 1>(sums, work, panel, 1, column);
      add_line<Sum, vector_bytes, 1, 2>(sums, work, panel, 2, column);
      add_line<Sum, vector_bytes, 2, 3>(sums, work, panel, 3, column);
    } else {
      add_line<Sum, vector_bytes, 0, 1>(sums, work, panel, 1, column);
      add_line<Sum, vector_bytes, 0, 2>(sums, work, panel, 2, column);
      for (int line = 3; line < filter_rows; ++line)
        add_line<Sum, vector_bytes, 0, 3>(sums, work, panel, line, column);
      add_line<Sum, vector_bytes, 1, 3>(sums, work, panel, filter_rows, column);
      add_line<Sum, vector_bytes, 2, 3>(sums, work, panel, filter_rows + 1, column);
    }
    add_line<Sum, vector_bytes, 3, 3>(sums, work, panel, filter_rows + 2, column);
  }
}

/// Some vectors of columns of `rows` rows, from a column on.
template <class Sum, int vector_bytes, int rows, int vectors>
[[gnu::always_inline]] inline void add_vectors(const PanelsUnderRows<Sum>& work, int column) {
  using V = Vectors<Sum, vector_bytes>;
  const auto kept = [&](int row, int v) {
    return reinterpret_cast<typename V::InMemory*>(work.sums + row * segment_columns<Sum> + column +
                                                   v * V::lanes);
  };
  typename V::Vector sums[rows][vectors];
  for (int row = 0; row < rows; ++row)
    for (int v = 0; v < vectors; ++v) sums[row][v] = *kept(row, v);
  for (int i = 0; i < work.count; ++i)
    add_panel<Sum, vector_bytes>(sums, work, work.panels[i], column);
  for (int row = 0; row < rows; ++row)
    for (int v = 0; v < vectors; ++v) *kept(row, v) = sums[row][v];
}

/// All columns, `vectors` of them at once.
template <class Sum, int vector_bytes, int rows, int vectors>
[[gnu::always_inline]] inline void add_columns(const PanelsUnderRows<Sum>& work) {
  constexpr int lanes = Vectors<Sum, vector_bytes>::lanes;
  static_assert(segment_granule<Sum> % lanes == 0);
  int first = 0;
  for (; first + vectors * lanes <= work.columns; first += vectors * lanes)
    add_vectors<Sum, vector_bytes, rows, vectors>(work, first);
  if constexpr (vectors > 2)
    for (; first + 2 * lanes <= work.columns; first += 2 * lanes)
      add_vectors<Sum, vector_bytes, rows, 2>(work, first);
  for (; first < work.columns; first += lanes) add_vectors<Sum, vector_bytes, rows, 1>(work, first);
}

/// `sums` vectors of sums fit into the registers. Rows that are not there cost as much as others.
template <class Sum, int vector_bytes, int sums>
[[gnu::always_inline]] inline void add_to_rows(const PanelsUnderRows<Sum>& work) {
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
void add_panels(const PanelsUnderRows<Sum>& work) {
  add_to_rows<Sum, 16, 8>(work);
}
template <class Sum>
bool all_finite(const Sum* sums, int columns) {
  return are_finite<Sum, 16>(sums, columns);
}
#ifdef __x86_64__
template <class Sum>
[[gnu::target("avx2,fma")]] void add_panels_avx2(const PanelsUnderRows<Sum>& work) {
  add_to_rows<Sum, 32, 8>(work);
}
template <class Sum>
[[gnu::target("avx2,fma")]] bool all_finite_avx2(const Sum* sums, int columns) {
  return are_finite<Sum, 32>(sums, columns);
}
template <class Sum>
[[gnu::target("avx512f,fma")]] void add_panels_avx512(const PanelsUnderRows<Sum>& work) {
  add_to_rows<Sum, 64, 16>(work);
}
template <class Sum>
[[gnu::target("avx512f,fma")]] bool all_finite_avx512(const Sum* sums, int columns) {
  return are_finite<Sum, 64>(sums, columns);
}
#endif

}  // namespace

void store_past_caches(const void* sums, void* y, std::size_t bytes) {
  const auto* from = static_cast<const char*>(sums);
  auto* to = static_cast<char*>(y);
#ifdef __x86_64__
  constexpr std::size_t vector = sizeof(__m128i);
  const std::size_t ahead = -reinterpret_cast<std::uintptr_t>(to) % vector;
  if (ahead < bytes) {
    std::memcpy(to, from, ahead);
    to += ahead, from += ahead, bytes -= ahead;
    for (; bytes >= vector; bytes -= vector, to += vector, from += vector)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
#endif
  std::memcpy(to, from, bytes);
}

void end_stores() {
#ifdef __x86_64__
  _mm_sfence();
#endif
}

template <class Sum>
RowLoops<Sum> row_loops_for([[maybe_unused]] std::string_view instruction_set) {
#ifdef __x86_64__
  if (instruction_set == "avx512") return {add_panels_avx512<Sum>, all_finite_avx512<Sum>};
  if (instruction_set == "avx2") return {add_panels_avx2<Sum>, all_finite_avx2<Sum>};
#endif
  return {add_panels<Sum>, all_finite<Sum>};
}
template RowLoops<float> row_loops_for(std::string_view instruction_set);
template RowLoops<double> row_loops_for(std::string_view instruction_set);

double flop_per_cycle_of(std::string_view instruction_set) {
  return instruction_set == "avx512" ? 64 : instruction_set == "avx2" ? 32 : 8;
}

}  // namespace plumb::kokkos
