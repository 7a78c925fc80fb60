// Tiles whose vectors run over filters, and stores. Compiled once for each instruction set, with
// internal linkage (primitives/vectors.inl says why).
#pragma once

#include <type_traits>
#include <utility>

#include "cpu_kernels/channels/channels_load.inl"
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

/// Adds the products of `taps` neighbours of a row, `stride` of them a position: what is loaded
/// serves all taps that meet it. A sum meets its taps in their order.
template <int taps, int stride, int groups, class Real, int positions, int vectors>
[[gnu::always_inline]] inline void add_neighbours(ChannelsTile<Real, positions, vectors>& tile,
                                                  const ChannelsTap* tap, const Real* x,
                                                  const Real* w, std::int64_t step) {
  static_assert(vectors == 1);
  Vector<Real> filters[taps];
#pragma GCC unroll 4
  for (int s = 0; s < taps; ++s) filters[s] = load_vector(w + tap[s].w * lanes<Real>);
  const Real* fourth = x + tap->x;
#pragma GCC unroll 32
  for (int j = 0; j < (positions - 1) * stride + taps; ++j) {
    if (j % 4 == 0 && j > 0) fourth += 4 * step;
    const Vector<Real> value = repeat<groups>(fourth + j % 4 * step);
#pragma GCC unroll 4
    for (int s = 0; s < taps; ++s)
      if (s <= j && (j - s) % stride == 0 && (j - s) / stride < positions)
        tile.sums[(j - s) / stride][0] += value * filters[s];
  }
}

/// Adds the products of all terms of vectors that hold some groups. Where two groups or four are
/// repeated as they are loaded, that is an instruction beside each product.
template <int groups, class Real, int positions, int vectors>
[[gnu::always_inline]] inline void add_groups(ChannelsTile<Real, positions, vectors>& tile,
                                              const ChannelsRun<Real>& run, const Real* x,
                                              const Real* w) {
  const std::int64_t step = run.x_step;
  const ChannelsTap* const end = run.taps + run.taps_count;
  for (std::int64_t c = run.channels; c > 0; --c, x += run.x_channel, w += run.w_taps * lanes<Real>)
    for (const ChannelsTap* tap = run.taps; tap < end;) {
      const bool two = tap + 1 < end;  // a row of one element may have a step of 0
      const std::int64_t next = two ? tap[1].x - tap[0].x : 0;
      const bool three = tap + 2 < end && tap[2].x - tap[1].x == next;
      if (next == step && three)
        add_neighbours<3, 1, groups>(tile, tap, x, w, step), tap += 3;
      else if (next == step && two)
        add_neighbours<2, 1, groups>(tile, tap, x, w, step), tap += 2;
      else if (2 * next == step && three)
        add_neighbours<3, 2, groups>(tile, tap, x, w, next), tap += 3;
      else
        add_neighbours<1, 1, groups>(tile, tap, x, w, step), tap += 1;
    }
}

/// Adds the products of a tap, but for so many positions at the tile's beginning and end. Positions
/// are reached from every fourth by small multiples of the step, which addresses have room for.
template <int before, int after, bool by_lane, class Real, int positions, int vectors>
[[gnu::always_inline]] inline void add_tap(ChannelsTile<Real, positions, vectors>& tile,
                                           const Real* x, const Vector<Real> (&filters)[vectors],
                                           std::int64_t step) {
  const Real* fourth = x;
#pragma GCC unroll 16
  for (int i = 0; i < positions - after; ++i) {
    if (i % 4 == 0 && i > 0) fourth += 4 * step;
    if (i < before) continue;
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

/// Adds the products of all terms.
template <class Real, int positions, int vectors, int groups>
[[gnu::always_inline]] inline void add_channels(ChannelsTile<Real, positions, vectors>& tile,
                                                const ChannelsRun<Real>& run, const Real* x,
                                                const Real* of_channel, unsigned edges,
                                                bool from_memory) {
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
    if (groups == 1 && from_memory) __builtin_prefetch(next), next += line;
    if constexpr (groups == 1)
      for (std::int64_t i = 0; i < ahead_lines; ++i) __builtin_prefetch(ahead, 0, 2), ahead += line;
    for (const ChannelsTap* tap = taps; tap < end; ++tap) {
      const Real* const w = of_channel + tap->w * (vectors * lanes<Real>);
      if constexpr (PLUMB_REGISTERS == 32 && groups == 1)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v)
          __builtin_prefetch(w + (channels_terms_ahead * vectors + v) * lanes<Real>);
      Vector<Real> filters[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) filters[v] = load_vector(w + v * lanes<Real>);
      if constexpr (groups > 1)
        add_tap<0, 0, true>(tile, x + tap->x, filters, step);
      else
        switch (tap->zeros & edges) {
          case 0: add_tap<0, 0, false>(tile, x + tap->x, filters, step); break;
          case 1: add_tap<1, 0, false>(tile, x + tap->x, filters, step); break;
          case 2: add_tap<0, 1, false>(tile, x + tap->x, filters, step); break;
          case 3: add_tap<1, 1, false>(tile, x + tap->x, filters, step); break;
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
template <class Real, int positions, int vectors, int groups>
[[gnu::noinline]] void sum_channels_tile(const ChannelsRun<Real>& run, std::int64_t k,
                                         const Real* x, const Real* w, Real* sums,
                                         [[maybe_unused]] unsigned edges) {
  const std::int64_t step = run.sums_step, last = run.filters - k - (vectors - 1) * lanes<Real>;
  ChannelsTile<Real, positions, vectors> tile;
#pragma GCC unroll 16
  for (int i = 0; i < positions; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) __builtin_prefetch(sums + i * step + v * lanes<Real>, 1);
  if (groups > 1 && run.from_memory && run.taps_count > 0) {
    // A tile shares all but its last rows with the neighbours of those before it.
    const Real* const next =
        x + run.taps[run.taps_count - 1].x + run.tiles_ahead * positions * run.x_step;
#pragma GCC unroll 16
    for (int i = 0; i < positions; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) __builtin_prefetch(next + i * run.x_step + v * groups);
  }
  if (!run.first)
#pragma GCC unroll 16
    for (int i = 0; i < positions; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        const Real* const at = sums + i * step + v * lanes<Real>;
        tile.sums[i][v] = v == vectors - 1 ? load_lanes(at, last) : load_vector(at);
        tile.sums[i][v] = turn_lanes<Real, lanes<Real> / groups>(tile.sums[i][v]);
      }
  if constexpr (groups > 1 && groups < lanes<Real>)
    add_groups<groups>(tile, run, x, w);
  else
    add_channels<Real, positions, vectors, groups>(tile, run, x, w, edges,
                                                   run.from_memory && k == 0);
#pragma GCC unroll 16
  for (int i = 0; i < positions; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) tile.sums[i][v] = turn_lanes<Real, groups>(tile.sums[i][v]);
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
template <class Real, int positions, int max_vectors, int groups>
void sum_channels_runs(const ChannelsRun<Real>& run, const Real* x, Real* sums, unsigned edges) {
  const Real* w = run.w;
  for (std::int64_t k = 0; k < run.filters; k += max_vectors * lanes<Real>) {
    const std::int64_t left = run.filters - k;
    const Real* const from = groups > 1 ? x + k / lanes<Real> * run.x_vector : x;
    // The last run may have fewer vectors for each channel.
    const std::int64_t before = run.first_channel * run.w_taps * lanes<Real>;
    if (left > (max_vectors - 1) * lanes<Real>)
      sum_channels_tile<Real, positions, max_vectors, groups>(
          run, k, from, w + before * max_vectors, sums + k, edges);
    else
      sum_channels_tile<Real, positions, 1, groups>(run, k, from, w + before, sums + k, edges);
    w += run.w_channels * run.w_taps * (max_vectors * lanes<Real>);
  }
}

/// Tiles of 1, 2, .. positions.
template <class Real, int vectors, int groups, class Sequence>
struct ChannelsTiles;
template <class Real, int vectors, int groups, int... i>
struct ChannelsTiles<Real, vectors, groups, std::integer_sequence<int, i...>> {
  using Sum = void(const ChannelsRun<Real>&, const Real* x, Real* sums, unsigned edges);
  static constexpr Sum* of[] = {&sum_channels_runs<Real, i + 1, vectors, groups>...};
};

template <class Real, int vectors, int groups>
inline void sum_channels_of(ChannelsRun<Real>& run) {
  using Tiles =
      ChannelsTiles<Real, vectors, groups, std::make_integer_sequence<int, channels_positions>>;
  // Tiles of a row are as equal as can be: a small one has too few sums for the latency of an FMA.
  const std::int64_t count = ceil_quotient(run.count, channels_positions);
  for (std::int64_t row = 0; row < run.rows; ++row)
    for (std::int64_t tile = 0; tile < count; ++tile) {
      const std::int64_t first = run.count * tile / count, end = run.count * (tile + 1) / count;
      if (run.ahead >= run.ahead_end) run.ahead_lines = 0;
      const unsigned edges = (tile == 0 ? 1u : 0u) | (tile == count - 1 ? 2u : 0u);
      Tiles::of[end - first - 1](run, run.x + row * run.x_row + first * run.x_step,
                                 run.sums + row * run.sums_row + first * run.sums_step, edges);
      run.ahead += run.ahead_lines * run.channels * (64 / int{sizeof(Real)});
    }
}

template <class Real>
void sum_channels(ChannelsRun<Real>& run) {
  const bool two = run.vectors == 2;
  // Some groups a vector have as many loads as products, of one vector as of two.
  if constexpr (2 < lanes<Real>)
    if (run.groups == 2) return sum_channels_of<Real, 1, 2>(run);
  if constexpr (4 < lanes<Real>)
    if (run.groups == 4) return sum_channels_of<Real, 1, 4>(run);
  if (run.groups == 1)
    two ? sum_channels_of<Real, 2, 1>(run) : sum_channels_of<Real, 1, 1>(run);
  else
    two ? sum_channels_of<Real, 2, lanes<Real>>(run) : sum_channels_of<Real, 1, lanes<Real>>(run);
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
