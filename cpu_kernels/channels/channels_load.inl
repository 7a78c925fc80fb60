// Rows of x are copied to a slab for tiles whose vectors run over filters. Compiled once for each
// instruction set, with internal linkage (primitives/vectors.inl says why).
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "cpu_kernels/conv/channels_kernels.hpp"
#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/primitives/transpose.inl"
#include "cpu_kernels/primitives/vectors.inl"

namespace plumb {
namespace {

/// Returns lanes that are `columns` a row of a matrix in the order of its columns: from
/// [row][column] to [column][row].
template <int columns, class Real, int... lane>
[[gnu::always_inline]] inline Vector<Real> turn_lanes(Vector<Real> values,
                                                      std::integer_sequence<int, lane...>) {
  constexpr int rows = lanes<Real> / columns;
  return __builtin_shufflevector(values, values, (lane % rows * columns + lane / rows)...);
}
template <class Real, int columns>
[[gnu::always_inline]] inline Vector<Real> turn_lanes(Vector<Real> values) {
  if constexpr (columns == 1 || columns == lanes<Real>) return values;
  return turn_lanes<columns, Real>(values, std::make_integer_sequence<int, lanes<Real>>{});
}

/// Returns how far ahead of a column its copy prefetches: whole columns of 2 KiB or more.
template <class Stored>
inline std::int64_t load_ahead(std::int64_t x_column) {
  constexpr std::int64_t bytes = 2048;
  const std::int64_t column = (x_column < 0 ? -x_column : x_column) * std::int64_t{sizeof(Stored)};
  return column > 0 ? ceil_quotient(bytes, column) * x_column : 0;
}

/// Copies to[column * pitch + channel], whatever the steps of x.
template <class Stored, class Real>
inline void load_channels_plain(const Stored* x, std::int64_t x_column, std::int64_t x_channel,
                                std::int64_t columns, std::int64_t channels, Real* to,
                                std::int64_t pitch) {
  if (x_channel == 1) {
    constexpr std::int64_t line = 64 / std::int64_t{sizeof(Stored)};
    const std::int64_t ahead = load_ahead<Stored>(x_column);
    for (std::int64_t i = 0; i < columns; ++i) {
      const Stored* const from = x + i * x_column;
      for (std::int64_t c = 0; c < channels; c += line) __builtin_prefetch(from + ahead + c);
      load_row(from, 1, channels, to + i * pitch);
    }
    return;
  }
  if constexpr (std::is_same_v<Real, float>) {
    if constexpr (std::is_same_v<Stored, float>)
      if (x_column == 1) return transpose(x, x_channel, channels, columns, to, pitch);
    // Rows of a few channels are widened before they are transposed.
    constexpr std::int64_t together = 8, room = 64;
    Real rows[together * room];
    for (std::int64_t c = 0; c < channels; c += together)
      for (std::int64_t i = 0; i < columns; i += room) {
        const std::int64_t some = lesser(together, channels - c), count = lesser(room, columns - i);
        for (std::int64_t j = 0; j < some; ++j)
          load_row(x + (c + j) * x_channel + i * x_column, x_column, count, rows + j * room);
        transpose(rows, room, some, count, to + i * pitch + c, pitch);
      }
  } else {
    for (std::int64_t i = 0; i < columns; ++i)
      load_row(x + i * x_column, x_channel, channels, to + i * pitch);
  }
}

/// Copies each filter's input, to[channel][filter], from [group][channel].
template <class Real>
inline void expand_filters(const Real* from, const ChannelsLoad<Real>& load, Real* to) {
  const std::int64_t channels = load.channels, filters = load.filters;
  const std::int64_t of_group = load.group_filters, used = load.groups * of_group - load.skip;
  if (of_group <= lanes<Real> && lanes<Real> % of_group == 0 && channels <= of_group) {
    // A vector of filters has all its inputs in one vector.
    LaneIndex<Real> lane{};
    for (int i = 0; i < lanes<Real>; ++i)
      lane[i] = static_cast<LaneInt<Real>>(i / of_group * channels);
    for (std::int64_t k = 0; k < filters; k += lanes<Real>) {
      const Vector<Real> inputs = load_vector(from + k / of_group * channels);
      LaneIndex<Real> index = lane;
      for (std::int64_t c = 0; c < channels; ++c, index += 1)
        *reinterpret_cast<Vector<Real>*>(to + c * filters + k) = permute<Real>(inputs, index);
    }
    return;
  }
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t k = 0; k < lesser(used, filters); ++k)
      to[c * filters + k] = from[(load.skip + k) / of_group * channels + c];
}

/// Neighbours in a part of a vector, and parts side by side.
template <class Real, int count>
struct PartOf {
  typedef Real Type
      __attribute__((vector_size(count * sizeof(Real)), aligned(sizeof(Real)), may_alias));
};
template <class Part, int... lane>
inline auto side_by_side(Part a, Part b, std::integer_sequence<int, lane...>) {
  return __builtin_shufflevector(a, b, lane...);
}
/// Returns a vector of `parts` rows of `count` neighbours, `step` apart.
template <int parts, int count, class Real>
inline auto load_parts(const Real* from, std::int64_t step) {
  if constexpr (parts == 1)
    return *reinterpret_cast<const typename PartOf<Real, count>::Type*>(from);
  else
    return side_by_side(load_parts<parts / 2, count>(from, step),
                        load_parts<parts / 2, count>(from + parts / 2 * step, step),
                        std::make_integer_sequence<int, parts * count>{});
}

/// Copies to[vector][channel][group] from [group][channel], `groups` in a vector.
template <int groups, class Real>
inline void turn_groups(const Real* from, std::int64_t step, const ChannelsLoad<Real>& load,
                        Real* to) {
  constexpr int together = lanes<Real> / groups;
  const Real* const ahead = from + load_ahead<Real>(load.x_column);
  for (std::int64_t g = 0; g < load.groups; g += groups, to += load.filters) {
    const std::int64_t some = lesser(groups, load.groups - g);
    const Real* const first = from + g * step;
    std::int64_t c = 0;
    __builtin_prefetch(ahead + g * step);
    for (; some == groups && c + together <= load.channels; c += together)
      *reinterpret_cast<Vector<Real>*>(to + c * groups) =
          turn_lanes<Real, together>(load_parts<groups, together>(first + c, step));
    for (; c < load.channels; ++c)
      for (std::int64_t i = 0; i < some; ++i) to[c * groups + i] = first[i * step + c];
  }
}
template <class Real>
inline void turn_groups(const Real* from, std::int64_t step, const ChannelsLoad<Real>& load,
                        Real* to) {
  if constexpr (4 < lanes<Real>)
    if (load.turn == 4) return turn_groups<4>(from, step, load, to);
  if constexpr (2 < lanes<Real>) turn_groups<2>(from, step, load, to);
}

template <class Stored, class Real>
inline void load_channels_stored(const ChannelsLoad<Real>& load) {
  const auto* const x = static_cast<const Stored*>(load.x);
  if (!load.expand && !load.turn)
    return load_channels_plain(x, load.x_column, load.x_channel, load.columns, load.channels,
                               load.to, load.pitch);
  if constexpr (std::is_same_v<Stored, Real>)
    if (load.turn && load.x_channel == 1) {
      for (std::int64_t i = 0; i < load.columns; ++i)
        turn_groups(x + i * load.x_column, load.x_group, load, load.to + i * load.pitch);
      return;
    }
  const std::int64_t inputs = load.groups * load.channels;
  for (std::int64_t i = 0; i < load.columns; i += staged_columns) {
    const std::int64_t count = lesser(staged_columns, load.columns - i);
    const Stored* const from = x + i * load.x_column;
    if (load.x_group == load.channels * load.x_channel)
      load_channels_plain(from, load.x_column, load.x_channel, count, inputs, load.staged, inputs);
    else
      for (std::int64_t g = 0; g < load.groups; ++g)
        load_channels_plain(from + g * load.x_group, load.x_column, load.x_channel, count,
                            load.channels, load.staged + g * load.channels, inputs);
    for (std::int64_t j = 0; j < count; ++j) {
      const Real* const staged = load.staged + j * inputs;
      Real* const to = load.to + (i + j) * load.pitch;
      load.turn ? turn_groups(staged, load.channels, load, to) : expand_filters(staged, load, to);
    }
  }
}

template <class Real>
void load_channels(const ChannelsLoad<Real>& load) {
  with_stored<Real>(load.dtype, [&](auto stored) { load_channels_stored<decltype(stored)>(load); });
}

}  // namespace
}  // namespace plumb
