// The first kernel of backward weights: a block sums a part of the units for some of dw.
#pragma once

#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/weights/weights_load.cuh"
#include "cuda_kernels/weights/weights_sums.cuh"

namespace plumb::cuda::weights {

/// Adds `count` values that lie `every` apart, one after the other.
template <class Real>
__device__ Real chain_of(const Real* from, int count, int every) {
  Real sum = 0;
  for (int i = 0; i < count; ++i) sum += from[i * every];
  return sum;
}

/// Adds the sums of a filter's line over the threads that share each tile, and calls
/// `store(tile, tap, sum)`. All threads of the block are here; `own` are a thread's sums.
template <class Real, int taps, class Store>
__device__ void add_splits(const WeightsCut& cut, const Real (&own)[taps], Real* memory,
                           const Store& store) {
  const int tiles = cut.tiles_k * cut.tiles_l, thread = static_cast<int>(threadIdx.x);
  const int outputs = tiles * taps, rows = cut.sum_rows, in_row = (cut.splits + rows - 1) / rows;
  Real* const added = memory + cut.threads * taps;
  // A thread's number is split * tiles + tile, so that threads' sums lie in rows of outputs.
#pragma unroll
  for (int tap = 0; tap < taps; ++tap) memory[thread * taps + tap] = own[tap];
  __syncthreads();
  for (int i = thread; i < rows * outputs; i += cut.threads) {
    const int row = i / outputs, output = i - row * outputs, first = row * in_row;
    added[i] =
        chain_of(memory + first * outputs + output, min(in_row, cut.splits - first), outputs);
  }
  __syncthreads();
  for (int i = thread; i < outputs; i += cut.threads)
    store(i / taps, i % taps, chain_of(added + i, rows, outputs));
}

template <class Real>
inline constexpr int blocks_at_once = sizeof(Real) == 4 ? 2 : 1;

template <class Real, class Stored, int filters, int lines, int taps>
__global__ void __launch_bounds__(weights_threads, blocks_at_once<Real>)
    sum_weights(const __grid_constant__ WeightsParams params, const Stored* x, const Stored* dy,
                Real* parts) {
  const WeightsSizes& sizes = params.plan.sizes;
  const WeightsCut& cut = params.plan.cut;
  auto* const starts = reinterpret_cast<int*>(dynamic_shared());
  auto* const stages = reinterpret_cast<Real*>(starts + weights_max_steps);
  const int thread = static_cast<int>(threadIdx.x), tiles = cut.tiles_k * cut.tiles_l;
  const int x_elements = cut.x_elements(sizes.d.taps);
  const int stage_elements = cut.stage_elements(sizes.d.taps);
  const BlockShare share(params, blockIdx.x);
  const int split = thread / tiles, tile = thread - split * tiles;
  const int tile_k = tile / cut.tiles_l, tile_l = tile - tile_k * cut.tiles_l;

  for (int step = thread; step < cut.steps; step += cut.threads) {
    const auto [row, chunk] = params.chunks.divide(step);
    const auto [image, p] = params.box_p.divide(row);
    const int rows = image * cut.block_c * sizes.d.taps * cut.rows + p * sizes.h.stride;
    starts[step] = rows * cut.row_pitch + chunk * weights_step;
  }
  int offsets[lines];
#pragma unroll
  for (int i = 0; i < lines; ++i)
    offsets[i] = Line(params, share, tile_l * lines + i).offset(params);

  ThreadSums<Real, filters, lines, taps> sums;
  const UnitLoader<Real, Stored> loader{params, share, x, dy, thread, cut.threads};
  Unit next(cut, share.begin);
  if (share.begin < share.end) loader.load(next, stages);
  commit_copies();
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    const int turn = static_cast<int>(unit - share.begin) & 1;
    const Real* const stage = stages + turn * stage_elements;
    if (unit + 1 < share.end) {
      next.advance(sizes, cut);
      loader.load(next, stages + (1 - turn) * stage_elements);
    }
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();
    // Filters of a thread are tiles_k apart, so that threads beside it read other banks.
    if (split < cut.splits)
      sums.add(stage, stage + x_elements + tile_k * cut.filter_pitch, starts, offsets,
               cut.tiles_k * cut.filter_pitch, split, cut.splits, cut.steps);
    __syncthreads();
  }

  const std::int64_t filter_terms = sizes.terms();
  Real* const part = parts + share.part * sizes.weights();
  // One filter's line after the other, by the same code.
#pragma unroll 1
  for (int round = 0; round < filters * lines; ++round) {
    Real own[taps];
    sums.pick(own, round);
    const int k = round / lines, of_thread = round - k * lines;
    add_splits<Real, taps>(cut, own, stages, [&](int of_tile, int tap, Real sum) {
      const int of_k = of_tile / cut.tiles_l;
      const Line line(params, share, (of_tile - of_k * cut.tiles_l) * lines + of_thread);
      const int filter = share.k + k * cut.tiles_k + of_k;
      const int s = line.s + tap * sizes.w.stride;
      if (!line.valid || filter >= sizes.group_k || s >= sizes.w.taps) return;
      const std::int64_t row =
          (std::int64_t{share.c + line.c} * sizes.d.taps + line.t) * sizes.h.taps + line.r;
      part[(share.group * sizes.group_k + filter) * filter_terms + row * sizes.w.taps + s] = sum;
    });
    __syncthreads();
  }
}

}  // namespace plumb::cuda::weights
