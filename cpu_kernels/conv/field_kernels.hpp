// What the functions of fields that are compiled for each instruction set get (fields.inl). It is
// plain data, because sources for several instruction sets share it.
#pragma once

#include <cstdint>
#include <limits>

#include "plumb/types.hpp"

namespace plumb {

/// Columns of `rows` taps that share loads, whose weights lie [column][row]. Tap i of column j of
/// output row a reads row a + i of the slab, from x[j] on, counted from the output's position.
struct TapColumns {
  std::int64_t rows, columns;
  const std::int64_t* x;
  std::int64_t w;  ///< where the weights begin
};

/// Stands for a row or a column of zeros among offsets.
inline constexpr std::int64_t no_element = std::numeric_limits<std::int64_t>::min();

/// Vectors that are to be copied: one from `from` to where `to` bytes further lies, and so on until
/// `end`. What lies `ahead` bytes further is prefetched.
struct SlabPart {
  const char* from;
  const char* end;
  std::intptr_t to, ahead;
};

/// Rows of x, of all channels of a plane, on their way to a slab with what the boundaries show
/// before and behind them. The next to be copied is what is left of `part`, then row `row` of
/// channel `channel`.
template <class Real>
struct SlabLoad {
  DType dtype;
  const void* x;  ///< the plane of the first channel, or null for zeros
  std::int64_t channels;
  std::int64_t x_channel;  ///< from a channel to the next in x, in elements
  std::int64_t rows;
  const std::int64_t* row_offsets;  ///< of each row in x, in elements, or no_element
  std::int64_t begin, end;          ///< columns [begin, end) of the slab are neighbours in x
  std::int64_t first;               ///< where in a row the column `begin` lies, in elements
  std::int64_t x_step;              ///< from one column to the next
  std::int64_t columns;             ///< of the slab that are written
  const std::int64_t* outside;      ///< where in a row each other column lies, or no_element

  Real* slab;                 ///< where the plane of the first channel comes to lie
  std::int64_t slab_channel;  ///< from a channel to the next
  std::int64_t pitch;         ///< from a row to the next, all of which is written

  std::int64_t channel, row;
  SlabPart part;
  std::int64_t due;  ///< elements that tiles should have copied and have not, or less than 0
};

/// Outputs of one filter: `rows` rows of `columns` columns, from a slab.
template <class Real>
struct FieldRun {
  const Real* x;          ///< the slab at the output (0, 0)
  std::int64_t x_row;     ///< from an output row to the next
  std::int64_t row_step;  ///< output rows whose taps lie in the same rows of the slab
  const TapColumns* taps;
  std::int64_t taps_count;
  const Real* w;
  std::int64_t rows, columns;

  DType dtype;
  void* y;  ///< at the output (0, 0)
  std::int64_t y_row, y_column;
  Real bias;
  bool accumulate, relu;
  bool plain;   ///< whether sums are stored as they are, columns are neighbours, nothing corrects
  bool stream;  ///< whether whole vectors go past the caches

  /// Null, or what is loaded for the next step meanwhile: `share` elements with each tile, and
  /// at most so many vectors with each column of taps.
  SlabLoad<Real>* beside;
  std::int64_t share, column_share;

  /// Null, or what is called with the sums of a tile, bias included, before the rest is done: rows
  /// row, row + row_step, ... of `count` columns each, `step` apart.
  void (*correct)(const void* context, std::int64_t row, std::int64_t rows, std::int64_t column,
                  std::int64_t count, Real* sums, std::int64_t step);
  const void* context;
};

/// The functions of one instruction set.
template <class Real>
struct FieldKernels {
  std::int64_t lanes;             ///< columns of a tile
  std::int64_t rows;              ///< of a tile; the last may have half as many
  std::int64_t tap_rows;          ///< the most rows of a column of taps
  void (*load)(SlabLoad<Real>&);  ///< copies all that is left
  void (*sum)(const FieldRun<Real>&);
};

}  // namespace plumb
