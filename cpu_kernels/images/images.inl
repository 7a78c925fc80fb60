// Tiles whose vectors run over images. Compiled once for each instruction set, with internal
// linkage (primitives/vectors.inl says why).
#pragma once

#include "cpu_kernels/conv/images_kernels.hpp"
#include "cpu_kernels/conv/micro_kernel.inl"
#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/primitives/vectors.inl"

namespace plumb {
namespace {

/// Adds the products of all terms to a tile of `outputs` vectors of each filter.
template <class Real, int filters, int outputs>
[[gnu::always_inline]] inline void add_images(Tile<Real, filters, outputs>& tile,
                                              const ImagesRun<Real>& run, const Real* x) {
  const std::int64_t step = run.x_step, w_channel = run.w_taps * filters;
  const ChannelsTap* const taps = run.taps;
  const ChannelsTap* const end = taps + run.taps_count;
  const Real* of_channel = run.w;
  for (std::int64_t c = run.channels; c > 0; --c, x += run.x_channel, of_channel += w_channel)
#pragma GCC unroll 1
    for (const ChannelsTap* tap = taps; tap < end; ++tap) {
      const Real* const w = of_channel + tap->w * filters;
      const Real* fourth = x + tap->x;
      Vector<Real> values[outputs];
#pragma GCC unroll 16
      for (int i = 0; i < outputs; ++i) {
        if (i % 4 == 0 && i > 0) fourth += 4 * step;
        values[i] = load_vector(fourth + i % 4 * step);
      }
#pragma GCC unroll 16
      for (int k = 0; k < filters; ++k)
#pragma GCC unroll 16
        for (int i = 0; i < outputs; ++i) tile.sums[k][i] += values[i] * w[k];
    }
}

template <class Real, int filters, int outputs>
[[gnu::noinline]] void sum_images_tile(const ImagesRun<Real>& run, const Real* x, Real* sums) {
  const std::int64_t step = run.sums_step, of_filter = run.sums_filter;
  Tile<Real, filters, outputs> tile;
  if (!run.first)
#pragma GCC unroll 16
    for (int k = 0; k < filters; ++k)
#pragma GCC unroll 16
      for (int i = 0; i < outputs; ++i)
        tile.sums[k][i] = load_vector(sums + k * of_filter + i * step);
  add_images(tile, run, x);
  apply_epilogue(tile, run.bias, run.plus_zero, run.relu);
#pragma GCC unroll 16
  for (int k = 0; k < filters; ++k)
#pragma GCC unroll 16
    for (int i = 0; i < outputs; ++i)
      *reinterpret_cast<Vector<Real>*>(sums + k * of_filter + i * step) = tile.sums[k][i];
}

/// A tile of `wanted` outputs, at most `outputs`.
template <class Real, int filters, int outputs>
inline void sum_images_outputs(const ImagesRun<Real>& run, const Real* x, Real* sums,
                               std::int64_t wanted) {
  if constexpr (outputs > 0) {
    if (wanted == outputs) return sum_images_tile<Real, filters, outputs>(run, x, sums);
    sum_images_outputs<Real, filters, outputs - 1>(run, x, sums, wanted);
  }
}

template <class Real, int filters>
inline void sum_images_filters(const ImagesRun<Real>& run) {
  // Tiles of a row are as equal as can be: a small one has too few sums for the latency of an FMA.
  const std::int64_t tiles = ceil_quotient(run.count, tile_vectors(filters));
  for (std::int64_t row = 0; row < run.rows; ++row)
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t first = run.count * tile / tiles, end = run.count * (tile + 1) / tiles;
      sum_images_outputs<Real, filters, tile_vectors(filters)>(
          run, run.x + row * run.x_row + first * run.x_step,
          run.sums + row * run.sums_row + first * run.sums_step, end - first);
    }
}

template <class Real>
void sum_images(const ImagesRun<Real>& run) {
  switch (run.filters) {
#if PLUMB_REGISTERS == 32
    case 8: return sum_images_filters<Real, 8>(run);
#else
    case 6: return sum_images_filters<Real, 6>(run);
#endif
    case 4: return sum_images_filters<Real, 4>(run);
    case 2: return sum_images_filters<Real, 2>(run);
    default: return sum_images_filters<Real, 1>(run);
  }
}

inline std::int64_t images_tile_outputs(std::int64_t filters) {
  return tile_vectors(static_cast<int>(filters));
}

template <class Real>
constexpr ImagesKernels<Real> images_kernels_for{.lanes = lanes<Real>,
                                                 .filters = max_filters,
                                                 .outputs = &images_tile_outputs,
                                                 .sum = &sum_images<Real>};

}  // namespace
}  // namespace plumb
