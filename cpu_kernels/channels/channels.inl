// Tiles whose vectors run over filters, loads of rows for them, and stores. Compiled once for each
// instruction set, with internal linkage (primitives/vectors.inl says why).
#pragma once

#include <type_traits>
#include <utility>

#include "cpu_kernels/conv/channels_kernels.hpp"
#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/primitives/transpose.inl"
#include "cpu_kernels/primitives/vectors.inl"

namespace plumb {
namespace {

/// Registers hold the sums, the filters' vectors and an input: 14 x 2 + 2 + 1, or 6 x 2 + 2 + 1.
inline constexpr int channels_vectors = 2;
inline constexpr int channels_positions = PLUMB_REGISTERS == 32 ? 14 : 6;
/// Filters this many terms ahead are prefetched: they stream from a cache that others share.
inline constexpr std::int64_t channels_terms_ahead = 48;

template <class Real, int positions, int vectors>
struct ChannelsTile {
  Vector<Real> sums[positions][vectors] = {};
};

/// Adds the products of all terms. Positions are reached from every fourth by small multiples of
/// the step, which addresses have room for.
template <class Real, int positions, int vectors, bool by_lane>
[[gnu::always_inline]] inline void add_channels(ChannelsTile<Real, positions, vectors>& tile,
                                                const ChannelsRun<Real>& run, const Real* x,
                                                const Real* of_channel) {
  const std::int64_t step = run.x_step, x_channel = run.x_channel;
  const std::int64_t w_channel = run.w_taps * (vectors * lanes<Real>);
  const ChannelsTap* const taps = run.taps;
  const ChannelsTap* const end = taps + run.taps_count;
  constexpr int line = 64 / int{sizeof(Real)};
  // The next tile of a row reads what follows the last tap's channels.
  const Real* next = x + (run.taps_count > 0 ? end[-1].x : 0) + positions * step;
  const Real* ahead = run.ahead;
  const std::int64_t ahead_lines = run.ahead_lines;
  for (std::int64_t c = run.channels; c > 0; --c, x += x_channel, of_channel += w_channel) {
    if (!by_lane && run.from_memory) __builtin_prefetch(next), next += line;
    if constexpr (!by_lane)
      for (std::int64_t i = 0; i < ahead_lines; ++i) __builtin_prefetch(ahead, 0, 2), ahead += line;
    for (const ChannelsTap* tap = taps; tap < end; ++tap) {
      const Real* const w = of_channel + tap->w * (vectors * lanes<Real>);
      if constexpr (PLUMB_REGISTERS == 32 && !by_lane)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v)
          __builtin_prefetch(w + (channels_terms_ahead * vectors + v) * lanes<Real>);
      Vector<Real> filters[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) filters[v] = load_vector(w + v * lanes<Real>);
      const Real* fourth = x + tap->x;
#pragma GCC unroll 16
      for (int i = 0; i < positions; ++i) {
        if (i % 4 == 0 && i > 0) fourth += 4 * step;
        const Real* const at = fourth + i % 4 * step;
        if constexpr (by_lane) {
#pragma GCC unroll 2
          for (int v = 0; v < vectors; ++v)
            tile.sums[i][v] += load_vector(at + v * lanes<Real>) * filters[v];
        } else {
          const Real value = *at;
#pragma GCC unroll 2
          for (int v = 0; v < vectors; ++v) tile.sums[i][v] += filters[v] * value;
        }
      }
    }
  }
}

/// Applies bias and ReLU.
template <class Real, int positions, int vectors>
[[gnu::always_inline]] inline void finish_channels(ChannelsTile<Real, positions, vectors>& tile,
                                                   const ChannelsRun<Real>& run, std::int64_t k) {
#pragma GCC unroll 2
  for (int v = 0; v < vectors; ++v) {
    if (run.bias) {
      const Vector<Real> bias =
          load_lanes(run.bias + k + v * lanes<Real>, run.filters - k - v * lanes<Real>);
#pragma GCC unroll 16
      for (int i = 0; i < positions; ++i) tile.sums[i][v] += bias;
    }
    if (run.plus_zero)
#pragma GCC unroll 16
      for (int i = 0; i < positions; ++i) tile.sums[i][v] += Vector<Real>{};
    if (run.relu)
#pragma GCC unroll 16
      for (int i = 0; i < positions; ++i)
        tile.sums[i][v] = tile.sums[i][v] < 0 ? Vector<Real>{} : tile.sums[i][v];
  }
}

/// A tile of filters [k, k + vectors * lanes) from the first term to the last. The last vector may
/// have filters in its first lanes alone.
template <class Real, int positions, int vectors, bool by_lane>
[[gnu::noinline]] void sum_channels_tile(const ChannelsRun<Real>& run, std::int64_t k,
                                         const Real* x, const Real* w, Real* sums) {
  const std::int64_t step = run.sums_step, last = run.filters - k - (vectors - 1) * lanes<Real>;
  ChannelsTile<Real, positions, vectors> tile;
#pragma GCC unroll 16
  for (int i = 0; i < positions; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) __builtin_prefetch(sums + i * step + v * lanes<Real>, 1);
  if (by_lane && run.from_memory && run.taps_count > 0) {
    // The next tile shares all but its last rows with this one's neighbours.
    const Real* const next = x + run.taps[run.taps_count - 1].x + positions * run.x_step;
#pragma GCC unroll 16
    for (int i = 0; i < positions; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) __builtin_prefetch(next + i * run.x_step + v * lanes<Real>);
  }
  if (!run.first)
#pragma GCC unroll 16
    for (int i = 0; i < positions; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        const Real* const at = sums + i * step + v * lanes<Real>;
        tile.sums[i][v] = v == vectors - 1 ? load_lanes(at, last) : load_vector(at);
      }
  add_channels<Real, positions, vectors, by_lane>(tile, run, x, w);
  finish_channels(tile, run, k);
#pragma GCC unroll 16
  for (int i = 0; i < positions; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      Real* const at = sums + i * step + v * lanes<Real>;
      if (v == vectors - 1)
        store_lanes(at, tile.sums[i][v], last);
      else
        *reinterpret_cast<Vector<Real>*>(at) = tile.sums[i][v];
    }
}

/// A tile of all runs: neighbouring filters have neighbouring inputs and outputs.
template <class Real, int positions, int max_vectors, bool by_lane>
void sum_channels_runs(const ChannelsRun<Real>& run, const Real* x, Real* sums) {
  const Real* w = run.w;
  for (std::int64_t k = 0; k < run.filters; k += max_vectors * lanes<Real>) {
    const std::int64_t left = run.filters - k;
    const Real* const from = by_lane ? x + k : x;
    // The last run may have fewer vectors for each channel.
    const std::int64_t before = run.first_channel * run.w_taps * lanes<Real>;
    if (left > (max_vectors - 1) * lanes<Real>)
      sum_channels_tile<Real, positions, max_vectors, by_lane>(run, k, from,
                                                               w + before * max_vectors, sums + k);
    else
      sum_channels_tile<Real, positions, 1, by_lane>(run, k, from, w + before, sums + k);
    w += run.w_channels * run.w_taps * (max_vectors * lanes<Real>);
  }
}

/// Tiles of 1, 2, .. positions.
template <class Real, int vectors, bool by_lane, class Sequence>
struct ChannelsTiles;
template <class Real, int vectors, bool by_lane, int... i>
struct ChannelsTiles<Real, vectors, by_lane, std::integer_sequence<int, i...>> {
  using Sum = void(const ChannelsRun<Real>&, const Real* x, Real* sums);
  static constexpr Sum* of[] = {&sum_channels_runs<Real, i + 1, vectors, by_lane>...};
};

template <class Real, int vectors, bool by_lane>
inline void sum_channels_of(ChannelsRun<Real>& run) {
  using Tiles =
      ChannelsTiles<Real, vectors, by_lane, std::make_integer_sequence<int, channels_positions>>;
  // Tiles of a row are as equal as can be: a small one has too few sums for the latency of an FMA.
  const std::int64_t count = ceil_quotient(run.count, channels_positions);
  for (std::int64_t row = 0; row < run.rows; ++row)
    for (std::int64_t tile = 0; tile < count; ++tile) {
      const std::int64_t first = run.count * tile / count, end = run.count * (tile + 1) / count;
      if (run.ahead >= run.ahead_end) run.ahead_lines = 0;
      Tiles::of[end - first - 1](run, run.x + row * run.x_row + first * run.x_step,
                                 run.sums + row * run.sums_row + first * run.sums_step);
      run.ahead += run.ahead_lines * run.channels * (64 / int{sizeof(Real)});
    }
}

template <class Real>
void sum_channels(ChannelsRun<Real>& run) {
  if (run.by_lane)
    run.vectors == 2 ? sum_channels_of<Real, 2, true>(run) : sum_channels_of<Real, 1, true>(run);
  else
    run.vectors == 2 ? sum_channels_of<Real, 2, false>(run) : sum_channels_of<Real, 1, false>(run);
}

/// Copies to[column * pitch + channel], whatever the steps of x.
template <class Stored, class Real>
inline void load_channels_plain(const Stored* x, std::int64_t x_column, std::int64_t x_channel,
                                std::int64_t columns, std::int64_t channels, Real* to,
                                std::int64_t pitch) {
  if (x_channel == 1) {
    for (std::int64_t i = 0; i < columns; ++i)
      load_row(x + i * x_column, 1, channels, to + i * pitch);
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

template <class Stored, class Real>
inline void load_channels_stored(const ChannelsLoad<Real>& load) {
  const auto* const x = static_cast<const Stored*>(load.x);
  if (!load.expand)
    return load_channels_plain(x, load.x_column, load.x_channel, load.columns, load.channels,
                               load.to, load.pitch);
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
    for (std::int64_t j = 0; j < count; ++j)
      expand_filters(load.staged + j * inputs, load, load.to + (i + j) * load.pitch);
  }
}

template <class Real>
void load_channels(const ChannelsLoad<Real>& load) {
  with_stored<Real>(load.dtype, [&](auto stored) { load_channels_stored<decltype(stored)>(load); });
}

/// Stores or adds one row of filters or outputs.
template <bool plus_zero, class Stored, class Real>
inline void store_channels_row(const ChannelsStore<Real>& store, const Real* sums,
                               std::int64_t count, Stored* y, std::int64_t step) {
  if (store.accumulate)
    add_row<plus_zero>(sums, count, store.relu, y, step);
  else
    store_row<plus_zero>(sums, count, y, step);
}

template <bool plus_zero, class Stored, class Real>
inline void store_channels_as(const ChannelsStore<Real>& store) {
  auto* const y = static_cast<Stored*>(store.y);
  if (store.y_filter == 1) {
    for (std::int64_t i = 0; i < store.count; ++i)
      store_channels_row<plus_zero>(store, store.sums + i * store.sums_step, store.filters,
                                    y + i * store.y_output, 1);
    return;
  }
  if constexpr (std::is_same_v<Stored, float> && std::is_same_v<Real, float> && !plus_zero)
    if (store.y_output == 1 && !store.accumulate)
      return transpose(store.sums, store.sums_step, store.count, store.filters, y, store.y_filter);
  constexpr std::int64_t together = 8, room = 64;
  Real rows[together * room];
  for (std::int64_t k = 0; k < store.filters; k += together)
    for (std::int64_t i = 0; i < store.count; i += room) {
      const std::int64_t some = lesser(together, store.filters - k);
      const std::int64_t count = lesser(room, store.count - i);
      const Real* const from = store.sums + i * store.sums_step + k;
      if constexpr (std::is_same_v<Real, float>)
        transpose(from, store.sums_step, count, some, rows, room);
      else
        for (std::int64_t j = 0; j < some; ++j)
          load_row(from + j, store.sums_step, count, rows + j * room);
      for (std::int64_t j = 0; j < some; ++j)
        store_channels_row<plus_zero>(store, rows + j * room, count,
                                      y + (k + j) * store.y_filter + i * store.y_output,
                                      store.y_output);
    }
}

template <class Real>
void store_channels(const ChannelsStore<Real>& store) {
  with_stored<Real>(store.dtype, [&](auto stored) {
    using Stored = decltype(stored);
    // Sums that are stored as they are have been without -0 since their bias.
    if (store.plus_zero && (store.accumulate || !std::is_same_v<Stored, Real>))
      store_channels_as<true, Stored>(store);
    else
      store_channels_as<false, Stored>(store);
  });
}

template <class Real>
constexpr ChannelsKernels<Real> channels_kernels_for{.lanes = lanes<Real>,
                                                     .positions = channels_positions,
                                                     .vectors = channels_vectors,
                                                     .sum = &sum_channels<Real>,
                                                     .load = &load_channels<Real>,
                                                     .store = &store_channels<Real>};

}  // namespace
}  // namespace plumb
