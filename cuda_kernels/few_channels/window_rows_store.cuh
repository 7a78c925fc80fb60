// Sums of streamed filters become outputs, and are written. In a row of sixteen windows lane 4 g +
// t has windows 2 g and 2 g + 1 of one filter, or of two filters at a stride of two. If lanes wrote
// these, a warp's pieces would begin and end anywhere in sectors of memory; so the four lanes of a
// group exchange what they have, until a warp writes a run of 32 outputs (or two of 16) at a time.
#pragma once

#include "cuda_kernels/few_channels/window_store.cuh"

namespace plumb::cuda {

/// Lanes that differ in `lane_bit` exchange values: each lane has two whose numbers differ in
/// `bit`, and gives the other lane the one that is not of its own side.
template <int bit, int lane_bit, int count>
__device__ inline void exchange(float (&values)[count]) {
  const bool upper = (threadIdx.x & lane_bit) != 0;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if ((i & bit) != 0) continue;
    float& first = values[i];
    float& second = values[i | bit];
    const float got = __shfl_xor_sync(0xffffffff, upper ? first : second, lane_bit);
    (upper ? first : second) = got;
  }
}

/// The outputs of a strip that a lane writes after the exchange.
template <class Stored>
struct LaneOutputs {
  bool one;       ///< a window has one output, not two
  bool fours;     ///< the lane has four neighbours, which are written at once
  int filter;     ///< the first of eight columns' filters that the lane writes
  int rows_left;  ///< rows of the image from the strip's first on
  Stored* to;     ///< where that filter's first output goes

  /// The strip has `rows` rows, at windows `first` to `first` + 15 of the `numbers` of a tile.
  __device__ LaneOutputs(const WindowOutput<Stored>& output, const WindowItem& item, int rows,
                         int first_k, int first, int numbers) {
    const WindowKernelParams& params = output.params;
    const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
    one = params.shifts == 1, fours = params.y_fours;
    const bool runs_of_32 = !one && !params.pools;
    // This is the window of the lane's output, or of the first of its four.
    const int number = first + (fours        ? lane / 4 * 2
                                : runs_of_32 ? lane / 2
                                             : lane / 4 * 2 + lane % 2);
    const auto [image, strip, window] = TileWindow(params, number, numbers);
    const int p = item.p + strip * rows;
    const int q = item.q + window * params.shifts + (runs_of_32 && !fours ? lane % 2 : 0);
    const int last_q = params.pools ? q + 1 : q;
    rows_left = number < numbers && last_q < params.conv.q.value() ? params.conv.p.value() - p : 0;
    filter = fours ? t : one ? t / 2 * 4 : params.pools ? t / 2 * 2 : 0;
    to = output.y + output.at(item, image, first_k + filter, output.stored(p), output.stored(q));
  }
};

/// Writes a warp's sums of a strip's rows at windows `first` to `first` + 15 of the tile, which has
/// `numbers` windows. `scale` undoes the scale of the input.
template <bool scaled, class Sum, int rows, int n8_tiles, class Stored>
__device__ void store_rows(const WindowOutput<Stored>& output, const WindowItem& item,
                           const Sum (&sums)[rows][n8_tiles], const WindowControl& control,
                           float scale, int first_k, int first, int numbers) {
  const WindowKernelParams& params = output.params;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const LaneOutputs<Stored> lane(output, item, rows, first_k, first, numbers);
  const bool one = lane.one, fours = lane.fours;
  const int filters = params.conv.k.value() - first_k;
  const auto& step_of = params.conv.y_step;
  const int filters_of_eight = one ? 4 * 2 : 4;
  const auto finish = [&](float sum, int filter) {
    const float bias = control.filter_bias[filter];
    return max_nan(scaled ? fmaf(sum, control.filter_scales[filter] * scale, bias) : sum + bias,
                   output.epilogue.least);
  };
  // Several are exchanged at a time, so that none waits for another's shuffles.
  const auto each = [&](auto counts, auto steps, auto&& make) {
    constexpr int count = decltype(counts)::value, step = decltype(steps)::value;
    constexpr int all = rows / step * n8_tiles, at_once = all < 4 ? all : 4;
#pragma unroll
    for (int begin = 0; begin < all; begin += at_once) {
      if (begin / (rows / step) * filters_of_eight >= filters) break;
      float values[at_once][count];
#pragma unroll
      for (int i = 0; i < at_once; ++i)
        if (begin + i < all)
          make(values[i], (begin + i) / (rows / step), (begin + i) % (rows / step) * step);
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const int filter = (begin + i) / (rows / step) * filters_of_eight;
        const int row = (begin + i) % (rows / step) * step;
        if (begin + i >= all || row + step > lane.rows_left) continue;
        Stored* const of_row = lane.to + filter * step_of.c + output.stored(row) * step_of.h;
        if (count == 4 && fours) {
          if constexpr (count == 4)
            if (lane.filter + filter < filters) write_four(of_row, values[i]);
          continue;
        }
#pragma unroll
        for (int j = 0; j < count; ++j)
          if (lane.filter + filter + j < filters)
            of_row[j * step_of.c] = convert<Stored>(values[i][j]);
      }
    }
  };
  using One = std::integral_constant<int, 1>;
  using Two = std::integral_constant<int, 2>;
  using Four = std::integral_constant<int, 4>;
  if (one) {
    each(Four{}, One{}, [&](float(&values)[4], int eight, int row) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        values[i] = finish(sums[row][eight][i], eight * filters_of_eight + 2 * t + i % 2);
      exchange<2, 1>(values);
    });
  } else if (!params.pools) {
    each(Four{}, One{}, [&](float(&values)[4], int eight, int row) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        values[i] = finish(sums[row][eight][i], eight * filters_of_eight + t);
      if (fours) return;
      exchange<1, 1>(values);
      exchange<2, 2>(values);
    });
  } else if constexpr (rows % 2 == 0) {
    each(Two{}, Two{}, [&](float(&values)[2], int eight, int row) {
      const Sum &above = sums[row][eight], &below = sums[row + 1][eight];
      // All that comes after the sum grows with it, so that the maximum can be taken first.
#pragma unroll
      for (int i = 0; i < 2; ++i)
        values[i] = finish(max_nan(max_nan(above[2 * i], above[2 * i + 1]),
                                   max_nan(below[2 * i], below[2 * i + 1])),
                           eight * filters_of_eight + t);
      exchange<1, 1>(values);
    });
  }
}

}  // namespace plumb::cuda
