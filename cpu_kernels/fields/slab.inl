// Rows of x are copied to a slab with what the boundaries show around them: at once, or a share with
// each tile of outputs, which multiplies meanwhile. A thread that reads many lines at once keeps
// its tiles' own reads waiting, because its buffers for lines under way are few.
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

/// Vectors that a tile copies while it multiplies. One is copied from `from` to where `to` bytes
/// further lies, and what `ahead` bytes further lies is prefetched.
template <class Real>
struct SlabPart {
  const char* from;
  const char* end;
  std::intptr_t to, ahead;
};

template <class Real>
[[gnu::always_inline]] inline void copy_part(SlabPart<Real>& part, std::int64_t most) {
  for (; most > 0 && part.from != part.end; --most) {
    __builtin_prefetch(part.from + part.ahead, 0, 2);
    const Vector<Real> values = load_vector(reinterpret_cast<const Real*>(part.from));
    *reinterpret_cast<Vector<Real>*>(const_cast<char*>(part.from) + part.to) = values;
    part.from += sizeof(values);
  }
}

/// Returns the `count` elements from the next one on, which are whole vectors.
template <class Real>
inline SlabPart<Real> part_of_row(const SlabLoad<Real>& load, const Real* from, Real* to,
                                  std::int64_t count) {
  constexpr std::int64_t distance = 4096;
  std::int64_t ahead = distance;
  if (load.rows > 1) {
    const std::int64_t row_bytes = (load.end - load.begin) * std::int64_t{sizeof(Real)};
    const std::int64_t row = load.row + ceil_quotient(distance, row_bytes);
    const std::int64_t* const offsets = load.row_offsets;
    const bool none = row >= load.rows || offsets[row] == no_element;
    ahead = none ? 0 : (offsets[row] - offsets[load.row]) * std::int64_t{sizeof(Real)};
  }
  const auto address = [](const Real* at) { return reinterpret_cast<std::intptr_t>(at); };
  return {.from = reinterpret_cast<const char*>(from),
          .end = reinterpret_cast<const char*>(from + count),
          .to = address(to) - address(from),
          .ahead = ahead};
}

/// Writes what a row shows outside of its columns that are neighbours in x, and those before the
/// first whole cache line of the slab.
template <class Stored, class Real>
inline void begin_slab_row(SlabLoad<Real>& load, const Stored* x, Real* row) {
  load_outside(load, x, row);
  const auto at = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(row + load.begin) /
                                            sizeof(Real));
  const std::int64_t head = lesser(-at & (lanes<Real> - 1), load.end - load.begin);
  load_slab_columns(x + load.first, load.x_step, head, row + load.begin);
  load.column = load.begin + head;
}

/// Copies at least `due` elements, but leaves the last row of them to the caller, in as far as it
/// consists of whole vectors.
template <class Stored, class Real>
inline SlabPart<Real> load_slab_due(SlabLoad<Real>& load) {
  for (; load.channel < load.channels; ++load.channel, load.row = 0) {
    for (; load.row < load.rows; ++load.row, load.column = 0) {
      if (load.due <= 0) return {};
      Real* const row = load.slab + load.channel * load.slab_channel + load.row * load.pitch;
      if (!load.x || load.row_offsets[load.row] == no_element) {
        zero_between(row, 0, load.pitch);
        load.due -= load.pitch;
        continue;
      }
      const Stored* const x = static_cast<const Stored*>(load.x) +
                              load.channel * load.x_channel + load.row_offsets[load.row];
      if (load.column == 0) begin_slab_row(load, x, row);
      const Stored* const from = x + load.first + (load.column - load.begin) * load.x_step;
      Real* const to = row + load.column;
      const std::int64_t left = load.end - load.column;
      if constexpr (std::is_same_v<Stored, Real>)
        if (load.x_step == 1) {
          const std::int64_t count = lesser(left, in_whole_vectors<Real>(load.due)) & -lanes<Real>;
          if (count > 0 && load.due < count + load.pitch) {
            load.due -= count;
            load.column += count;
            return part_of_row(load, from, to, count);
          }
        }
      const std::int64_t count = lesser(left, in_whole_vectors<Real>(load.due));
      load_slab_columns(from, load.x_step, count, to);
      load.due -= count;
      load.column += count;
      if (load.column < load.end) return {};
    }
  }
  return {};
}

/// Copies the tile's share, but for what is left to the caller to be copied while it multiplies.
template <class Real>
SlabPart<Real> load_slab_share(SlabLoad<Real>& load, std::int64_t share) {
  SlabPart<Real> part{};
  load.due += share;
  with_stored<Real>(load.dtype,
                    [&](auto stored) { part = load_slab_due<decltype(stored)>(load); });
  return part;
}

template <class Real>
void load_slab(SlabLoad<Real>& load) {
  load.due = std::numeric_limits<std::int64_t>::max() / 2;
  load_slab_share(load, 0);
}

}  // namespace
}  // namespace plumb
