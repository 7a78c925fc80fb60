// The sums of one thread, products of some rows of input with the rows of gradients under them, and
// how the threads of a block add theirs up.
#pragma once

#include <cstring>
#include <type_traits>

#include "cuda_kernels/depthwise_weights/depthwise_weights_params.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda::depthwise_weights {

/// An element as it is read: those of 16 bits each have a register, since two in one would have to
/// be parted.
template <class Stored>
using Raw = std::conditional_t<sizeof(Stored) == 2, unsigned, Stored>;

template <class Stored>
__device__ Raw<Stored> read_raw(const Stored* from) {
  if constexpr (sizeof(Stored) == 2)
    return *reinterpret_cast<const unsigned short*>(from);
  else
    return *from;
}
template <class Real, class Stored>
__device__ Real value_of(Raw<Stored> raw) {
  if constexpr (sizeof(Stored) == 2) {
    const auto bits = static_cast<unsigned short>(raw);
    Stored stored;
    memcpy(&stored, &bits, sizeof(stored));
    return convert<Real>(stored);
  } else {
    return convert<Real>(raw);
  }
}

/// A tile of rows x columns taps. A step takes `lines` lines of input, of `stride` rows each, and
/// `outputs` neighbouring columns of dy: a row of x is read once for all rows of dy that it meets.
template <class Real, int rows, int columns, int stride, int lines, int outputs>
struct TapSums {
  static constexpr int taps_of_line = (rows + stride - 1) / stride;
  static constexpr int x_rows = lines * stride, y_rows = lines + taps_of_line - 1;
  static constexpr int window = (outputs - 1) * stride + columns;
  Real sum[rows][columns] = {};

  /// `read_x(i, to)` reads row i of the lines to an array of `room` elements, of which the window
  /// is the first; `read_dy(i, to)` reads row i of dy, the first of which is taps_of_line - 1
  /// before the first line, and says whether there is one. With `ahead` a row of dy is read before
  /// the sums of the one before it.
  template <class Stored, int room, bool ahead, class ReadX, class ReadDy>
  __device__ void add(const ReadX& read_x, const ReadDy& read_dy) {
    Raw<Stored> x[x_rows][room], dy[2][outputs];
    bool any[2];
#pragma unroll
    for (int i = 0; i < x_rows; ++i) read_x(i, x[i]);
    Real window_of[x_rows][window];
    if (ahead) any[0] = read_dy(0, dy[0]);
#pragma unroll
    for (int i = 0; i < x_rows; ++i)
#pragma unroll
      for (int column = 0; column < window; ++column)
        window_of[i][column] = value_of<Real, Stored>(x[i][column]);
#pragma unroll
    for (int i = 0; i < y_rows; ++i) {
      const int next = ahead ? i + 1 : i;
      if (next < y_rows) any[next % 2] = read_dy(next, dy[next % 2]);
      if (any[i % 2]) add_row<Stored>(i, window_of, dy[i % 2]);
    }
  }

 private:
  template <class Stored>
  __device__ void add_row(int i, const Real (&x)[x_rows][window],
                          const Raw<Stored> (&dy)[outputs]) {
#pragma unroll
    for (int q = 0; q < outputs; ++q) {
      const Real gradient = value_of<Real, Stored>(dy[q]);
#pragma unroll
      for (int row = 0; row < x_rows; ++row) {
        const int r = stride * (row / stride - i + taps_of_line - 1) + row % stride;
        if (r < 0 || r >= rows) continue;
#pragma unroll
        for (int s = 0; s < columns; ++s)
          sum[r][s] = fma(gradient, x[row][q * stride + s], sum[r][s]);
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
