// Where one block has all pixels of a tile, it rounds the sums and stores them in dw, in whole rows
// of 128 bytes. What may be wrong is marked, and a kernel behind looks at marked tiles again.
#pragma once

#include "cuda_kernels/primitives/dependent_launch.cuh"
#include "cuda_kernels/weights/weights_finish.cuh"
#include "cuda_kernels/wide/wide_consumer.cuh"
#include "cuda_kernels/wide_weights/wide_weights_params.cuh"

namespace plumb::cuda {

/// The first of a consumer warp's filters and columns of a tile: of each 64 filters it has 16.
template <class Arithmetic, WideShape shape>
struct WeightsWarpPlace {
  int row, column;

  __device__ explicit WeightsWarpPlace(const WideWeightsWork& work) {
    const int warpgroup = consumer_warpgroup(), warp = static_cast<int>(threadIdx.x) / 32 % 4;
    constexpr bool below = shape.across == 1;
    row = work.filter_block * weights_block<Arithmetic> +
          (below ? warpgroup * shape.warpgroup_rows() : 0) + 16 * warp;
    column = work.column_block * weights_block<Arithmetic> +
             (below ? 0 : warpgroup * shape.warpgroup_columns());
  }
};

/// A warp's 16 filters by the channels of 128 bytes of dw, staged to be stored in whole rows.
template <class Stored>
class StagedWeights {
 public:
  static constexpr int bytes = sizeof(Stored), columns = swizzle_row_bytes / bytes;

  /// `staged` are 2 KB of the warp's own.
  __device__ explicit StagedWeights(char* staged)
      : staged_(staged), lane_(static_cast<int>(threadIdx.x) % 32) {
    first_ = swizzle_128(lane_ / 4 * swizzle_row_bytes + bytes * (lane_ % 4 * 2));
  }
  /// Rounds two neighbours of fragment `j`, of row lane / 4 or the eighth below it.
  __device__ void put(int j, int half, float x, float y) const {
    char* const to = staged_ + (first_ ^ 8 * bytes * j) + 8 * swizzle_row_bytes * half;
    *reinterpret_cast<WidePair<Stored>*>(to) = WidePair<Stored>::round(x, y);
  }
  /// Stores so many rows and channels; `to` is the first, rows are `apart`.
  __device__ void store(Stored* to, std::int64_t apart, int rows, int channels) const {
    constexpr int of_row = 8, of_vector = columns / of_row, at_once = 32 / of_row;
    const int row = lane_ / of_row, vector = lane_ % of_row;
    to += row * apart + vector * of_vector;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 16 / at_once; ++i, to += at_once * apart)
      if (row + at_once * i < rows && vector * of_vector < channels)
        WideVector<Stored>::load(staged_ +
                                 swizzle_128((row + at_once * i) * swizzle_row_bytes + 16 * vector))
            .store(to);
    __syncwarp();
  }

 private:
  char* staged_;
  int lane_, first_;
};

/// Rounds and stores a warpgroup's sums of a tile.
template <class Arithmetic, WideShape shape>
__device__ void store_weights_tile(const WideWeightsParams& params, const WideShared<shape>& shared,
                                   const WideWeightsWork& work, const WideSums<shape>& sums) {
  using Stored = typename Arithmetic::Stored;
  using Staged = StagedWeights<Stored>;
  constexpr int block = weights_block<Arithmetic>, fragments = Staged::columns / 8;
  const WeightsDirect& direct = params.direct;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const WeightsWarpPlace<Arithmetic, shape> place(work);
  const Staged staged(shared.staged(warp));
  const std::int64_t apart = direct.places.strides.w_k;
  auto* const dw = static_cast<Stored*>(direct.dw);
  const WideScale scale(params.x.scale ? *params.x.scale + *params.dy.scale : 0);
  bool doubted = false;
#pragma unroll
  for (int part = 0; part < WideSums<shape>::n8_tiles / fragments; ++part) {
    const int column = place.column + part * Staged::columns;
    if (column >= work.column_end * block) continue;
    const auto [number, of_blocks] = direct.places.row_blocks.divide(column / block);
    const int channel = of_blocks * block + column % block;
    const int channels = direct.places.groups.channels - channel;
    if (channels <= 0) continue;
    const WideWeight weight(direct.places, number, channel);
    const std::int64_t at = weight.at(direct.places.strides, 0);
#pragma unroll
    for (int i = 0; i < WideSums<shape>::m64_tiles; ++i) {
      const int row = place.row + 64 * i;
      if (row >= params.filters) continue;
#pragma unroll
      for (int j = 0; j < fragments; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float* const two = sums.of[i] + 4 * (part * fragments + j) + 2 * half;
          float x = two[0], y = two[1];
          if constexpr (Arithmetic::host.scales())
            x = scale.undo(x, params.least_sum), y = scale.undo(y, params.least_sum);
          doubted = doubted | is_doubtful<Arithmetic>(x) | is_doubtful<Arithmetic>(y);
          staged.put(j, half, x, y);
        }
      staged.store(dw + at + (work.group * params.filters + row) * apart, apart,
                   params.filters - row, channels);
    }
  }
  if (!direct.doubted) return;
  doubted = __any_sync(0xffffffff, doubted);
  if (threadIdx.x % 32 == 0) direct.doubted[work.number * wide_weights_warps + warp] = doubted;
}

/// What the kernel behind is told: tiles are those of the products.
struct WideWeightsRepair {
  WeightsPlan plan;  ///< sizes and strides alone
  WeightsDirect direct;
  WeightsColumns tile_columns;
  int filters, block, m, n;
  Divisor<int> m_tiles, n_tiles;
};

/// A block looks at a tile, if it is marked: sums anew, by the definition, what is NaN.
template <class Stored, WideWeightsFault fault>
__global__ void __launch_bounds__(weights::finish_threads)
    repair_wide_weights(const __grid_constant__ WideWeightsRepair of, const Stored* x,
                        const Stored* dy) {
  __shared__ double exact[weights::finish_threads];
  const int thread = static_cast<int>(threadIdx.x), work = static_cast<int>(blockIdx.x);
  wait_for_kernel_before();
  bool marked = false;
  for (int warp = 0; warp < wide_weights_warps; ++warp)
    marked = marked || of.direct.doubted[work * wide_weights_warps + warp] != 0;
  if (!marked || fault == WideWeightsFault::lost_doubt) return;
  const auto [above_n, n_tile] = of.n_tiles.divide(work);
  const auto [group, m_tile] = of.m_tiles.divide(above_n);
  auto* const dw = static_cast<Stored*>(of.direct.dw);
  const auto weight_of = [&](int i) {
    const int column = of.tile_columns.first(n_tile) * of.block + i % of.n;
    const auto [number, of_blocks] = of.direct.places.row_blocks.divide(column / of.block);
    WideWeight weight(of.direct.places, number, of_blocks * of.block + column % of.block);
    const bool is_there = column < of.tile_columns.first(n_tile + 1) * of.block &&
                          m_tile * of.m + i / of.n < of.filters;
    if (!is_there) weight.owner = -1;
    return weight;
  };
  const auto filter_of = [&](int i) { return group * of.filters + m_tile * of.m + i / of.n; };
  const auto is_wrong = [&](int i) {
    const WideWeight weight = weight_of(i);
    if (weight.owner != 0) return false;
    const float sum = convert<float>(dw[weight.at(of.plan.strides, filter_of(i))]);
    return sum != sum;
  };
#pragma unroll 1
  for (int first = 0; first < of.m * of.n; first += weights::finish_threads) {
    if (!__syncthreads_or(is_wrong(first + thread))) continue;
#pragma unroll 1
    for (int i = first; i < first + weights::finish_threads; ++i) {
      if (!is_wrong(i)) continue;
      const WideWeight weight = weight_of(i);
      exact[thread] =
          weights::definition<float>(of.plan, x, dy, weight.element(of.plan.sizes, filter_of(i)));
      weights::add_rows(exact, 1, weights::finish_threads);
      // All have read the wrong one.
      if (thread == 0)
        store_weight(dw[weight.at(of.plan.strides, filter_of(i))], static_cast<float>(exact[0]),
                     false);
      __syncthreads();
    }
  }
}

}  // namespace plumb::cuda
