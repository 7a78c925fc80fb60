// A plane of x is copied to a slab: most of its rows' whole vectors in blocks, one with each tile
// of outputs, which multiplies meanwhile, and the rest in the end, when most of its lines are in a
// cache. A thread that reads many lines at once keeps its tiles' own reads waiting, because its
// buffers for lines under way are few.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "cpu_kernels/conv/field_kernels.hpp"
#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/primitives/vectors.inl"

namespace plumb {
namespace {

template <class Real>
inline const Real* row_of_x(const SlabLoad<Real>& load, std::int64_t channel, std::int64_t row) {
  return static_cast<const Real*>(load.x) + channel * load.x_channel + load.row_offsets[row];
}
template <class Real>
inline Real* row_of_slab(const SlabLoad<Real>& load, std::int64_t channel, std::int64_t row) {
  return load.slab + channel * load.slab_channel + row * load.pitch;
}

/// Returns the next block, of which there is one left. What is prefetched beside it is some rows
/// further down, or further on in a field of one row.
template <class Real>
[[gnu::always_inline]] inline SlabBlock take_block(SlabLoad<Real>& load) {
  constexpr std::int64_t distance = 4096, bytes = sizeof(Real);
  const std::int64_t row = lesser(load.row, load.even_end - load.block_rows);
  const std::int64_t column =
      lesser(load.vector, load.vectors - load.block_vectors) * lanes<Real> + load.head;
  std::intptr_t ahead = load.rows_ahead * load.x_row * bytes;
  if (row + load.rows_ahead >= load.even_end) ahead = load.rows == 1 ? distance : 0;
  const SlabBlock block{
      reinterpret_cast<const char*>(row_of_x(load, load.channel, row) + load.first + column),
      reinterpret_cast<char*>(row_of_slab(load, load.channel, row) + load.begin + column), ahead};
  --load.left;
  load.vector += load.block_vectors;
  if (load.vector >= load.vectors) {
    load.vector = 0, load.row += load.block_rows;
    if (load.row >= load.even_end) load.row = load.even_begin, ++load.channel;
  }
  return block;
}

/// Copies a tile's share of a block with a column of taps.
template <class Real>
[[gnu::always_inline]] inline void copy_chunk(const SlabBlock& block, const TapColumn& column,
                                              std::int64_t vectors) {
  const char* from = block.from + column.from;
  char* to = block.to + column.to;
#pragma GCC unroll 1
  for (; vectors > 0; --vectors, from += sizeof(Vector<Real>), to += sizeof(Vector<Real>)) {
    __builtin_prefetch(from + block.ahead);
    *reinterpret_cast<Vector<Real>*>(to) = load_vector(reinterpret_cast<const Real*>(from));
  }
}

/// Copies a block at once.
template <class Real>
inline void copy_block(const SlabLoad<Real>& load, const SlabBlock& block) {
  constexpr std::int64_t bytes = sizeof(Real);
  for (std::int64_t row = 0; row < load.block_rows; ++row)
    copy_chunk<Real>(block,
                     {.x = 0, .from = row * load.x_row * bytes, .to = row * load.pitch * bytes},
                     load.block_vectors);
}

/// Copies columns that are neighbours in x, less than a vector, without reading anything else.
template <class Real>
inline void load_slab_columns(const Real* from, std::int64_t count, Real* to) {
  if (count > 0) store_first(to, load_first(from, count), count);
}

/// Loads what the whole vectors of a row leave.
template <class Stored, class Real>
inline void load_row_ends(const SlabLoad<Real>& load, const Stored* x, Real* row) {
  const std::int64_t count = load.end - load.begin, whole = load.vectors * lanes<Real>;
  if constexpr (std::is_same_v<Stored, Real>) {
    if (whole > 0) {
      const std::int64_t done = load.head + whole;
      load_slab_columns(x + load.first, load.head, row + load.begin);
      load_slab_columns(x + load.first + done, count - done, row + load.begin + done);
    }
  }
  if (whole == 0) load_row(x + load.first, load.x_step, count, row + load.begin);
  if (!load.has_outside) return;
  const auto load_between = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      if (load.outside[i] != no_element) row[i] = static_cast<Real>(widen(x[load.outside[i]]));
  };
  load_between(0, load.begin);
  load_between(load.end, load.columns);
}

/// Copies a row's whole vectors.
template <class Real>
inline void copy_row(const SlabLoad<Real>& load, std::int64_t channel, std::int64_t row) {
  copy_vectors(row_of_x(load, channel, row) + load.first + load.head, load.vectors * lanes<Real>,
               row_of_slab(load, channel, row) + load.begin + load.head);
}

/// Loads what blocks leave: ends of rows, rows elsewhere in x, and all where there are none.
template <class Stored, class Real>
inline void load_rest(const SlabLoad<Real>& load) {
  const std::int64_t whole = load.vectors * lanes<Real>;
  const bool no_ends = whole > 0 && whole == load.end - load.begin && !load.has_outside;
  for (std::int64_t channel = 0; channel < load.channels; ++channel)
    for (std::int64_t row = 0; row < load.rows; ++row) {
      if (load.row_offsets[row] == no_element) continue;
      const bool even = row >= load.even_begin && row < load.even_end;
      if (no_ends && even) {
        row = load.even_end - 1;
        continue;
      }
      const auto* const x =
          static_cast<const Stored*>(load.x) + channel * load.x_channel + load.row_offsets[row];
      Real* const to = row_of_slab(load, channel, row);
      if (whole > 0 && !even) copy_row(load, channel, row);
      load_row_ends(load, x, to);
    }
}

/// Finds blocks that are as many as there are tiles, or a sixteenth more: of a part of a row, or of
/// some rows, which are no more than there are columns of taps to copy one of them with.
template <class Real>
inline void plan_blocks(SlabLoad<Real>& load, std::int64_t tiles, std::int64_t columns) {
  const std::int64_t rows = load.even_end - load.even_begin, all = rows * load.channels;
  const std::int64_t most = tiles + tiles / 16, across = greater(most / all, 1);
  load.block_vectors = ceil_quotient(load.vectors, across);
  load.block_rows = 1;
  while (load.block_rows < lesser(rows, columns) &&
         load.channels * ceil_quotient(rows, load.block_rows) > most)
    ++load.block_rows;
  const std::int64_t of_row = columns / load.block_rows;
  load.chunk_vectors = ceil_quotient(load.block_vectors, of_row);
  load.chunks = ceil_quotient(load.block_vectors, load.chunk_vectors) * load.block_rows;
  load.left = load.channels * ceil_quotient(rows, load.block_rows) *
              ceil_quotient(load.vectors, load.block_vectors);
}

template <class Real>
void begin_slab(SlabLoad<Real>& load, std::int64_t tiles, TapColumn* columns, std::int64_t count) {
  constexpr std::int64_t distance = 4096, bytes = sizeof(Real);
  load.vectors = load.chunks = load.left = 0;
  if (!load.x || load.even_begin == load.even_end) return;
  if (size_in_bytes(load.dtype) != sizeof(Real) || load.x_step != 1) return;
  const std::int64_t at = reinterpret_cast<std::intptr_t>(load.slab + load.begin) / bytes;
  load.head = -at & (lanes<Real> - 1);
  load.vectors = greater(load.end - load.begin - load.head, 0) / lanes<Real>;
  if (load.vectors == 0) return;
  plan_blocks(load, tiles, count);
  load.channel = load.vector = 0, load.row = load.even_begin;
  load.rows_ahead = ceil_quotient(distance, (load.end - load.begin) * bytes);
  const std::int64_t of_row = load.chunks / load.block_rows;
  for (std::int64_t i = 0; i < load.chunks; ++i) {
    const std::int64_t row = i / of_row;
    const std::int64_t column = lanes<Real> * lesser(i % of_row * load.chunk_vectors,
                                                     load.block_vectors - load.chunk_vectors);
    columns[i].from = (row * load.x_row + column) * bytes;
    columns[i].to = (row * load.pitch + column) * bytes;
  }
}

template <class Real>
void end_slab(SlabLoad<Real>& load) {
  if (!load.x) return;
  while (load.left > 0) copy_block(load, take_block(load));
  with_stored<Real>(load.dtype, [&](auto stored) { load_rest<decltype(stored)>(load); });
}

}  // namespace
}  // namespace plumb
