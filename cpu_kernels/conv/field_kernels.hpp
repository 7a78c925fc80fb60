// What the functions of fields that are compiled for each instruction set get (fields.inl). It is
// plain data, because sources for several instruction sets share it.
#pragma once

#include <cstdint>
#include <limits>

#include "plumb/types.hpp"

namespace plumb {

/// A column of taps, and what a tile copies after its products: vectors from `from` bytes behind
/// the tile's block of x to `to` bytes behind the block's place in a slab.
struct TapColumn {
  std::int64_t x;
  std::int64_t from, to;
};

/// Columns of `rows` taps that share loads, whose weights lie [column][row]. Tap i of a column of
/// output row a reads row a + i of the slab, from `x` on, counted from the output's position.
struct TapColumns {
  std::int64_t rows, columns;
  const TapColumn* first;
  std::int64_t w;  ///< where the weights begin
  bool joined;     ///< of ordered sums: each row of x meets the next columns after these
};

/// Stands for a row or a column of zeros among offsets.
inline constexpr std::int64_t no_element = std::numeric_limits<std::int64_t>::min();

/// A block of x on its way to a slab, from its first vector's address to another. What lies
/// `ahead` bytes behind a vector is prefetched with it.
struct SlabBlock {
  const char* from;
  char* to;
  std::intptr_t ahead;
};

/// A plane of x, of all channels, on its way to a slab with what the boundaries show around it.
/// What is zero stands in the slab already. Whole vectors of rows that lie in x as they shall in
/// the slab, equally far apart, are copied in blocks, one with a tile of outputs: all blocks have
/// the same size, for which the last ones overlap, so that tiles have no branches to mispredict.
template <class Real>
struct SlabLoad {
  DType dtype;
  const void* x;  ///< the plane of the first channel, or null where nothing is to be loaded
  std::int64_t channels;
  std::int64_t x_channel;             ///< from a channel to the next in x, in elements
  const std::int64_t* row_offsets;    ///< of each row in x, in elements, or no_element
  std::int64_t rows;                  ///< of the slab
  std::int64_t x_row;                 ///< from a row of x to the next
  std::int64_t even_begin, even_end;  ///< rows of the slab that are so far apart
  std::int64_t begin, end;            ///< columns [begin, end) of the slab are neighbours in x
  std::int64_t first;                 ///< where in a row the column `begin` lies, in elements
  std::int64_t x_step;                ///< from one column to the next
  std::int64_t columns;               ///< of the slab
  const std::int64_t* outside;        ///< where in a row each other column lies, or no_element
  bool has_outside;                   ///< whether one of them is no zero

  Real* slab;                 ///< where the plane of the first channel comes to lie
  std::int64_t slab_channel;  ///< from a channel to the next
  std::int64_t pitch;         ///< from a row to the next

  std::int64_t head;                        ///< columns from `begin` to the first whole vector
  std::int64_t vectors;                     ///< of a row, or none where they are not copied whole
  std::int64_t block_rows, block_vectors;   ///< of a block
  std::int64_t chunk_vectors;               ///< that are copied with a column of taps
  std::int64_t chunks;                      ///< columns of taps with which some are
  std::int64_t rows_ahead;                  ///< what is prefetched lies so many rows below
  std::int64_t channel, row, vector, left;  ///< the next block, and how many there are
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
  Real bias;     ///< that sums begin with
  bool ordered;  ///< whether they begin at zero and end with `last`, and no -0 is stored
  Real last;     ///< the bias, or 0; never -0
  bool accumulate, relu;
  bool plain;   ///< whether sums are stored as they are, columns are neighbours, nothing corrects
  bool stream;  ///< whether whole vectors go past the caches

  SlabLoad<Real>* beside;  ///< what is loaded for the next step meanwhile

  /// Null, or what is called with the sums of a tile, bias included, before the rest is done: rows
  /// row, row + row_step, ... of `count` columns each, `step` apart.
  void (*correct)(const void* context, std::int64_t row, std::int64_t rows, std::int64_t column,
                  std::int64_t count, Real* sums, std::int64_t step);
  const void* context;
};

/// The functions of one instruction set.
template <class Real>
struct FieldKernels {
  std::int64_t lanes;     ///< columns of a tile
  std::int64_t rows;      ///< of a tile; the last may have half as many
  std::int64_t tap_rows;  ///< the most rows of a column of taps
  /// Plans the blocks of a load beside `tiles` tiles, for which it sets the columns' copies;
  /// copies all that is left.
  void (*begin_load)(SlabLoad<Real>&, std::int64_t tiles, TapColumn* columns, std::int64_t count);
  void (*end_load)(SlabLoad<Real>&);
  void (*sum)(const FieldRun<Real>&);
  /// Makes streamed outputs visible before whatever the thread stores next.
  void (*end_stores)();
};

}  // namespace plumb
