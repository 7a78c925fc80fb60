// The sums of one thread, products of some rows of input with the rows of gradients under them, and
// how the threads of a block add theirs up.
#pragma once

#include "cuda_kernels/depthwise_weights/depthwise_weights_params.cuh"

namespace plumb::cuda::depthwise_weights {

/// A tile of rows x columns taps. A step takes `lines` lines of input, of `stride` rows each, and
/// `outputs` neighbouring columns of dy: a row of x is read once for all rows of dy that it meets.
template <class Real, int rows, int columns, int stride, int lines, int outputs>
struct TapSums {
  static constexpr int taps_of_line = (rows + stride - 1) / stride;
  static constexpr int x_rows = lines * stride, y_rows = lines + taps_of_line - 1;
  static constexpr int window = (outputs - 1) * stride + columns;
  Real sum[rows][columns] = {};

  /// `read_x(i, to)` reads row i of the lines to an array of `room` values, of which the window is
  /// the first; `read_dy(i, to)` reads row i of dy, the first of which is taps_of_line - 1 before
  /// the first line.
  template <int room, class ReadX, class ReadDy>
  __device__ void add(const ReadX& read_x, const ReadDy& read_dy) {
    Real x[x_rows][room];
#pragma unroll
    for (int i = 0; i < x_rows; ++i) read_x(i, x[i]);
#pragma unroll
    for (int i = 0; i < y_rows; ++i) {
      Real dy[outputs];
      read_dy(i, dy);
#pragma unroll
      for (int q = 0; q < outputs; ++q)
#pragma unroll
        for (int row = 0; row < x_rows; ++row) {
          const int r = stride * (row / stride - i + taps_of_line - 1) + row % stride;
          if (r < 0 || r >= rows) continue;
#pragma unroll
          for (int s = 0; s < columns; ++s)
            sum[r][s] = fma(dy[q], x[row][q * stride + s], sum[r][s]);
        }
    }
  }
};

/// The threads of a block: member m of filter k is thread k * filter_every + m * member_every.
struct Team {
  int filters, members, filter_every, member_every;
};

/// How many rows of taps are added up at once, in at most 33 KiB.
template <class Real>
PLUMB_HOST_DEVICE constexpr int rows_at_once(int rows) {
  return sizeof(Real) == 8 ? (rows + 1) / 2 : rows;
}
/// Of a row of one tap's sums: odd, so that taps lie in different banks.
inline constexpr int sums_pitch = depthwise_weights_threads + 1;

/// Adds the sums of each filter's threads in a chain, and writes them to the block's part. All
/// threads of the block are here; `memory` may have been in use until now.
template <class Real, int rows, int columns, class Sums>
__device__ void write_part(const Params& params, const BlockShare& share, const Team& team,
                           const Sums& sums, Real* memory, Real* parts) {
  constexpr int at_once = rows_at_once<Real>(rows);
  const WeightsSizes& sizes = params.plan.weights.sizes;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t filter_taps = sizes.taps();
  Real* const part = parts + share.part * sizes.weights();
#pragma unroll
  for (int first = 0; first < rows; first += at_once) {
    __syncthreads();
#pragma unroll
    for (int r = first; r < first + at_once && r < rows; ++r)
#pragma unroll
      for (int s = 0; s < columns; ++s)
        memory[((r - first) * columns + s) * sums_pitch + thread] = sums.sum[r][s];
    __syncthreads();
    const int taps = (rows - first < at_once ? rows - first : at_once) * columns;
    for (int i = thread; i < team.filters * taps; i += depthwise_weights_threads) {
      const int k = i / taps, tap = i - k * taps;
      const int r = share.r + first + tap / columns, s = share.s + tap % columns;
      if (share.k + k >= params.plan.filters || r >= sizes.h.taps || s >= sizes.w.taps) continue;
      const Real* from = memory + tap * sums_pitch + k * team.filter_every;
      Real sum = 0;
      for (int member = 0; member < team.members; ++member) sum += from[member * team.member_every];
      part[(share.k + k) * filter_taps + (std::int64_t{share.t} * sizes.h.taps + r) * sizes.w.taps +
           s] = sum;
    }
  }
}

}  // namespace plumb::cuda::depthwise_weights
