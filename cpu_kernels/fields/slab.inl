// Rows of x are copied to a slab with what the boundaries show around them: at once, or a share
// with each tile of outputs, which multiplies meanwhile. A thread that reads many lines at once
// keeps its tiles' own reads waiting, because its buffers for lines under way are few.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "cpu_kernels/conv/field_kernels.hpp"
#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/primitives/vectors.inl"

namespace plumb {
namespace {

/// Copies columns that are neighbours in x, without reading anything else.
template <class Stored, class Real>
inline void load_slab_columns(const Stored* from, std::int64_t step, std::int64_t count, Real* to) {
  if constexpr (std::is_same_v<Stored, Real>)
    if (step == 1) {
      std::int64_t i = 0;
      for (; i + lanes<Real> <= count; i += lanes<Real>)
        *reinterpret_cast<Vector<Real>*>(to + i) = load_vector(from + i);
      if (i < count) store_first(to + i, load_first(from + i, count - i), count - i);
      return;
    }
  load_row(from, step, count, to);
}

/// Writes zeros to [begin, end), which is a vector or more.
template <class Real>
inline void zero_between(Real* to, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end - lanes<Real>; i += lanes<Real>)
    *reinterpret_cast<Vector<Real>*>(to + i) = Vector<Real>{};
  *reinterpret_cast<Vector<Real>*>(to + end - lanes<Real>) = Vector<Real>{};
}

/// Writes what a row shows outside of the columns that are neighbours in x.
template <class Stored, class Real>
inline void load_outside(const SlabLoad<Real>& load, const Stored* from, Real* to) {
  const auto load_between = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = load.outside[i];
      to[i] = at == no_element ? Real{0} : static_cast<Real>(widen(from[at]));
    }
  };
  zero_between(to, load.end, load.pitch);
  load_between(0, load.begin);
  load_between(load.end, load.columns);
}

/// Copies at most `max_vectors` of a part.
template <class Real>
[[gnu::always_inline]] inline void copy_part(SlabPart& part, std::int64_t max_vectors) {
  for (; max_vectors > 0 && part.from != part.end; --max_vectors) {
    __builtin_prefetch(part.from + part.ahead, 0, 2);
    const Vector<Real> values = load_vector(reinterpret_cast<const Real*>(part.from));
    *reinterpret_cast<Vector<Real>*>(const_cast<char*>(part.from) + part.to) = values;
    part.from += sizeof(values);
  }
}

/// Copies the ends of a row, up to the first whole vector of the slab and from behind the last, and
/// leaves what lies between as the load's part. What is prefetched beside that is some rows further
/// down, or further on in a field of one row.
template <class Real>
inline void load_row_ends(SlabLoad<Real>& load, const Real* x, Real* row) {
  constexpr std::int64_t distance = 4096;
  const std::int64_t count = load.end - load.begin;
  const Real* const from = x + load.first;
  Real* const to = row + load.begin;
  const auto address = [](const Real* at) { return reinterpret_cast<std::intptr_t>(at); };
  const std::int64_t at = address(to) / std::int64_t{sizeof(Real)};
  const std::int64_t head = lesser(-at & (lanes<Real> - 1), count);
  const std::int64_t end = head + ((count - head) & -lanes<Real>);
  load_slab_columns(from, 1, head, to);
  load_slab_columns(from + end, 1, count - end, to + end);
  std::int64_t ahead = distance;
  if (load.rows > 1) {
    const std::int64_t below =
        load.row + ceil_quotient(distance, count * std::int64_t{sizeof(Real)});
    const std::int64_t* const offsets = load.row_offsets;
    const bool none = below >= load.rows || offsets[below] == no_element;
    ahead = none ? 0 : (offsets[below] - offsets[load.row]) * std::int64_t{sizeof(Real)};
  }
  load.part = {.from = reinterpret_cast<const char*>(from + head),
               .end = reinterpret_cast<const char*>(from + end),
               .to = address(to) - address(from),
               .ahead = ahead};
}

/// Copies the next row, or all of it but the load's part.
template <class Stored, class Real>
inline void load_slab_row(SlabLoad<Real>& load) {
  Real* const row = load.slab + load.channel * load.slab_channel + load.row * load.pitch;
  if (!load.x || load.row_offsets[load.row] == no_element) {
    zero_between(row, 0, load.pitch);
    load.due -= load.pitch;
    return;
  }
  const Stored* const x = static_cast<const Stored*>(load.x) + load.channel * load.x_channel +
                          load.row_offsets[load.row];
  load_outside(load, x, row);
  if constexpr (std::is_same_v<Stored, Real>)
    if (load.x_step == 1 && load.end > load.begin) return load_row_ends(load, x, row);
  load_row(x + load.first, load.x_step, load.end - load.begin, row + load.begin);
  load.due -= load.end - load.begin;
}

/// Copies rows while more than a row is due, and leaves a part of the last to tiles.
template <class Stored, class Real>
inline void load_slab_rows(SlabLoad<Real>& load) {
  for (; load.channel < load.channels; ++load.channel, load.row = 0)
    while (load.row < load.rows) {
      if (load.due <= 0) return;
      load_slab_row<Stored>(load);
      ++load.row;
      const std::int64_t left = (load.part.end - load.part.from) / std::int64_t{sizeof(Real)};
      if (left > 0 && load.due < left + load.pitch) return;
      copy_part<Real>(load.part, left);
      load.due -= left;
    }
}

template <class Real>
[[gnu::noinline]] void load_slab_rows_of(SlabLoad<Real>& load) {
  with_stored<Real>(load.dtype, [&](auto stored) { load_slab_rows<decltype(stored)>(load); });
}

/// Returns the part that a tile copies while it multiplies, so that `share` elements more are done.
template <class Real>
[[gnu::always_inline]] inline SlabPart take_share(SlabLoad<Real>& load, std::int64_t share) {
  load.due += share;
  if (load.part.from == load.part.end) load_slab_rows_of(load);
  SlabPart part = load.part;
  const std::int64_t bytes =
      greater(in_whole_vectors<Real>(load.due), 0) * std::int64_t{sizeof(Real)};
  part.end = part.from + lesser(bytes, part.end - part.from);
  load.due -= (part.end - part.from) / std::int64_t{sizeof(Real)};
  load.part.from = part.end;
  return part;
}

/// Copies all that is left.
template <class Real>
void load_slab(SlabLoad<Real>& load) {
  copy_part<Real>(load.part, std::numeric_limits<std::int64_t>::max());
  load.due = std::numeric_limits<std::int64_t>::max() / 2;
  load_slab_rows_of(load);
}

}  // namespace
}  // namespace plumb
