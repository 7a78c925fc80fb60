// The inner loops of kokkos.conv.rows on a host: segments of lines of the input are added to the
// segments of the output rows that they are under. No Kokkos in here: one source has them for each
// instruction set, because Kokkos' own choice on a CPU may be that of any x86-64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plumb::kokkos {

/// Output columns that are computed together at most: 512 bytes of sums.
template <class Sum>
inline constexpr int segment_columns = 512 / static_cast<int>(sizeof(Sum));
/// What their number is a multiple of: 64 bytes of sums.
template <class Sum>
inline constexpr int segment_granule = 64 / static_cast<int>(sizeof(Sum));
/// Output rows that are computed together, where one lies below the other in the input too.
inline constexpr int segment_rows = 4;
/// Lines of the input that are added at once at most.
inline constexpr int max_lines = 32;

/// One line of the input, and the rows of the output from `first` to `last` that it is under.
template <class Sum>
struct Line {
  const Sum* inputs;  ///< what the first column's first tap reads
  const Sum* taps;    ///< of row `first`
  int first, last;
};

/// Lines of the input under up to `segment_rows` rows of the output.
template <class Sum>
struct LinesUnderRows {
  Sum* sums;  ///< of the first row; the others' lie `segment_columns` apart, all of them
  const Line<Sum>* lines;
  int count;              ///< of the lines
  std::int64_t tap_step;  ///< from a row's taps to those of the row below
  std::int64_t tap_count, dilation;
  int rows;     ///< 1 to `segment_rows`
  int columns;  ///< whole granules
};

template <class Sum>
struct RowLoops {
  void (*add_lines)(const LinesUnderRows<Sum>&);
  /// Whether all of so many sums, whole granules of them, are finite.
  bool (*all_finite)(const Sum* sums, int columns);
};

/// Of an instruction set by its name; of one that is not known, what every CPU runs.
template <class Sum>
RowLoops<Sum> row_loops_for(std::string_view instruction_set);

/// Additions and multiplications that a core does in a cycle with it, roughly.
double flop_per_cycle_of(std::string_view instruction_set);

}  // namespace plumb::kokkos
