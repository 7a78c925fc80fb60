// The inner loops of kokkos.conv.rows on a host: segments of lines of the input are added to the
// segments of the output rows that they are under. No Kokkos in here: one source has them for each
// instruction set, because Kokkos' own choice on a CPU may be that of any x86-64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plumb::kokkos {

/// Bytes of sums that are computed together at most, in a row of the output.
inline constexpr int segment_bytes = 512;
template <class Sum>
inline constexpr int segment_columns = segment_bytes / static_cast<int>(sizeof(Sum));
/// What their number is a multiple of: 64 bytes of sums.
template <class Sum>
inline constexpr int segment_granule = 64 / static_cast<int>(sizeof(Sum));
/// Output rows that are computed together, where one lies below the other in the input too.
inline constexpr int segment_rows = 4;
/// Lines of the input that are added at once at most.
inline constexpr int max_lines = 128;

/// Rows of a filter, and the lines of the input that they meet under the rows of the output:
/// `filter_rows` lines, and as many more as there are rows of the output below the first.
struct Panel {
  std::int64_t first_tap;
  int first_line, filter_rows;
};

/// Panels under up to `segment_rows` rows of the output.
template <class Sum>
struct PanelsUnderRows {
  Sum* sums;                ///< of the first row; the others' lie `segment_columns` apart
  const Sum* const* lines;  ///< what the first column's first tap reads; null: zeros, left out
  const Panel* panels;
  const Sum* taps;        ///< of the filter
  int count;              ///< of the panels
  std::int64_t row_step;  ///< from a row of the filter to the next
  std::int64_t tap_count, dilation;
  int rows;     ///< 1, or up to `segment_rows`, for which all have lines
  int columns;  ///< whole granules
};

template <class Sum>
struct RowLoops {
  void (*add_panels)(const PanelsUnderRows<Sum>&);
  /// Whether all of so many sums, whole granules of them, are finite.
  bool (*all_finite)(const Sum* sums, int columns);
};

/// Stores `bytes` of sums past the caches, which a large output would only empty; what follows the
/// calls must begin with end_stores().
void store_past_caches(const void* sums, void* y, std::size_t bytes);
/// Makes what was stored so visible before whatever the thread stores next.
void end_stores();

/// Of an instruction set by its name; of one that is not known, what every CPU runs.
template <class Sum>
RowLoops<Sum> row_loops_for(std::string_view instruction_set);

/// Additions and multiplications that a core does in a cycle with it, roughly.
double flop_per_cycle_of(std::string_view instruction_set);

}  // namespace plumb::kokkos
