// The sums of one warp: rows of the product are rows of outputs, terms are neighbouring columns of
// x under a row of taps, columns are neighbouring columns of outputs.
#pragma once

#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_params.cuh"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_warp.cuh"

namespace plumb::cuda::depthwise_toeplitz {

template <class Stored>
__device__ void multiply(float (&d)[4], const Fragment (&a)[4], const Fragment (&b)[2]) {
  if constexpr (std::is_same_v<Stored, __half>)
    mma_fp16(d, a, b);
  else
    mma_bf16(d, a, b);
}
template <class Stored>
__device__ void multiply(float (&d)[4], const Fragment (&a)[2], Fragment b) {
  if constexpr (std::is_same_v<Stored, __half>)
    mma_fp16(d, a, b);
  else
    mma_bf16(d, a, b);
}

/// `neighbours`: whether columns have stride 1, so that tiles of outputs share halves of x.
template <class Stored, bool neighbours, int m, int n, Fault fault>
class WarpSums {
 public:
  __device__ WarpSums(const Params& params, const BlockShare& share, const Shared& shared, int lane)
      : params_(params), share_(share), shared_(shared), lane_(lane) {
    stride_ = neighbours ? 1 : params.w.stride;
  }

  /// Whether an output was NaN or infinite: zeros of the padding or of the band may have met an
  /// Inf.
  __device__ bool has_suspects() const { return has_suspects_; }

  /// Makes all outputs of a channel of the block, in the place of its input. A warp goes along the
  /// rows, and in these along the columns, so that nothing that it overwrites is read again.
  __device__ void make(int c, const Stored* y, const Epilogue<Stored>& epilogue) {
    const DepthwiseToeplitzCut& cut = params_.cut;
    std::uint16_t* const plane = shared_.planes + cut.plane_at(c);
    const std::uint32_t* const taps =
        shared_.taps + c * cut.filter_words(params_.h.taps) + first_taps(anew(lane_));
    const float bias = epilogue.template bias_of<float>(share_.c + c);
    const int all = share_.m(cut);
#pragma unroll 1
    for (int row = 0; row < all; row += 16 * m) {
#pragma unroll
      for (int i = 0; i < m; ++i) {
        const int of_lane = min(row + 16 * i + lane_ % 16, all - 1);
        rows_[i] =
            SharedRow(plane + shared_.y_rows[of_lane].to + lane_ / 16 * depthwise_toeplitz_half);
      }
#pragma unroll 1
      for (int tile = 0; tile < cut.tiles; tile += n) {
        sum(taps, depthwise_toeplitz_half * stride_ * tile);
        __syncwarp();
        const Stored* const old = y + c * params_.shape.y_k;
        if (epilogue.accumulate)
          finish<true>(plane, old, row, tile, bias, epilogue.least);
        else
          finish<false>(plane, old, row, tile, bias, epilogue.least);
      }
    }
  }

 private:
  /// B[k][column] is the tap under column k of x, which lies so far into the array of a row.
  __device__ int first_taps(int lane) const {
    const int first = lane % 4 * 2 + params_.w.stride * (7 - lane / 4);
    const int parity = fault == Fault::wrong_parity ? 0 : first & 1;
    return parity * params_.cut.taps_words + (first - parity) / 2;
  }

  /// Sums over all taps from a column of the rows on.
  __device__ void sum(const std::uint32_t* taps, int column) {
#pragma unroll
    for (int i = 0; i < m; ++i)
#pragma unroll
      for (int j = 0; j < n; ++j)
#pragma unroll
        for (float& of : sums_[i][j]) of = 0;
    // Most bands have two halves: of a loop of one turn half the instructions would be its own.
    if (params_.cut.halves == 2)
      for_rows(taps, column, [&](const std::uint32_t* of_row, int at) { add_step(of_row, at); });
    else
      for_rows(taps, column, [&](const std::uint32_t* of_row, int at) { add_row(of_row, at); });
  }

  /// Calls `add` for each row of taps. The next one meets a row of x so much further on, which may
  /// be of another phase.
  template <class Add>
  __device__ void for_rows(const std::uint32_t* taps, int at, const Add& add) const {
    const DepthwiseToeplitzCut& cut = params_.cut;
    const int stride = params_.h.stride;
    const auto [rows, phases] = params_.stride_h.divide(params_.h.dilation);
    const int step = (phases * cut.phase_rows + rows) * cut.pitch,
              wrap = (1 - stride * cut.phase_rows) * cut.pitch,
              of_row = cut.copies * cut.taps_words;
    int phase = 0;
#pragma unroll 1
    for (int r = params_.h.taps; r > 0; --r) {
      add(taps, at);
      taps += of_row, at += step, phase += phases;
      if (phase >= stride) phase -= stride, at += wrap;
    }
  }

  __device__ void add_row(const std::uint32_t* taps, int at) {
    int left = params_.cut.halves;
#pragma unroll 1
    for (; left >= 2; left -= 2) {
      add_step(taps, at);
      taps += depthwise_toeplitz_half, at += 2 * depthwise_toeplitz_half;
    }
    if (left == 0) return;
    const Fragment b = taps[0];
    const int tail = lane_ / 16 * depthwise_toeplitz_half * (stride_ - 1);
#pragma unroll
    for (int i = 0; i < m; ++i) add_last_half(sums_[i], rows_[i] + (at + tail), b);
  }
  __device__ void add_step(const std::uint32_t* taps, int at) {
    const Fragment b[2] = {taps[0], taps[depthwise_toeplitz_half / 2]};
#pragma unroll
    for (int i = 0; i < m; ++i)
      if constexpr (neighbours)
        add_neighbours(sums_[i], rows_[i] + at, b);
      else
        add_apart(sums_[i], rows_[i] + at, b);
  }

  /// Tiles of outputs share the halves between them.
  __device__ static void add_neighbours(float (&sums)[n][4], SharedRow row,
                                        const Fragment (&b)[2]) {
    Fragment halves[n + 1][2];
#pragma unroll
    for (int j = 0; j < n; j += 2)
      load_two_halves(halves[j], halves[j + 1], row + depthwise_toeplitz_half * j);
    if constexpr (n % 2 == 0) load_half(halves[n], row + depthwise_toeplitz_half * n);
    // A product of 16 terms wants four registers in a row, which every second tile would have to
    // move there: two products of 8 terms take less.
    constexpr int swap = fault == Fault::exchanged_halves ? 1 : 0;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const Fragment(&first)[2] = halves[j + swap];
      const Fragment(&second)[2] = halves[j + 1 - swap];
      if (j % 2 == 0)
        multiply<Stored>(sums[j], {first[0], first[1], second[0], second[1]}, b);
      else
        multiply<Stored>(sums[j], first, b[0]);
    }
#pragma unroll
    for (int j = 1; j < n; j += 2) multiply<Stored>(sums[j], halves[j + 1 - swap], b[1]);
  }
  __device__ void add_apart(float (&sums)[n][4], SharedRow row, const Fragment (&b)[2]) const {
#pragma unroll
    for (int j = 0; j < n; ++j) {
      Fragment halves[2][2];
      load_two_halves(halves[0], halves[1], row);
      row = row + depthwise_toeplitz_half * stride_;
      constexpr int first = fault == Fault::exchanged_halves ? 1 : 0;
      const Fragment a[4] = {halves[first][0], halves[first][1], halves[1 - first][0],
                             halves[1 - first][1]};
      multiply<Stored>(sums[j], a, b);
    }
  }
  __device__ void add_last_half(float (&sums)[n][4], SharedRow row, Fragment b) const {
    Fragment halves[n + 1][2];
#pragma unroll
    for (int j = 0; j + 1 < n; j += 2)
      load_two_halves(halves[j], halves[j + 1], row + depthwise_toeplitz_half * stride_ * j);
    if constexpr (n % 2 != 0)
      load_half(halves[n - 1], row + depthwise_toeplitz_half * stride_ * (n - 1));
#pragma unroll
    for (int j = 0; j < n; ++j) multiply<Stored>(sums[j], halves[j], b);
  }

  /// Writes the outputs as they are stored, to the rows where the first tap found x; of the last
  /// tiles more than there are, over columns that nothing reads again.
  template <bool accumulate>
  __device__ void finish(std::uint16_t* plane, const Stored* y, int row, int tile, float bias,
                         float least) {
    const int all = share_.m(params_.cut);
    std::uint32_t suspects = 0;
#pragma unroll
    for (int i = 0; i < m; ++i)
#pragma unroll
      for (int below = 0; below < 2; ++below) {
        const int of_block = row + 16 * i + 8 * below + lane_ / 4;
        if (of_block >= all) continue;
        const RowPlace at = shared_.y_rows[of_block];
#pragma unroll
        for (int j = 0; j < n; ++j) {
          const int column = depthwise_toeplitz_half * (tile + j) + lane_ % 4 * 2;
          float first = sums_[i][j][2 * below] + bias, second = sums_[i][j][2 * below + 1] + bias;
          if constexpr (accumulate) first += old(y, at, column), second += old(y, at, column + 1);
          const std::uint32_t pair = rounded_pair<Stored>(first, second, least);
          suspects = plus_zero_times<Stored>(suspects, pair);
          *reinterpret_cast<std::uint32_t*>(plane + at.to + column) = pair;
        }
      }
    has_suspects_ = has_suspects_ || (suspects & 0x7fff7fff) != 0;
  }
  __device__ float old(const Stored* y, const RowPlace& at, int column) const {
    const int q = share_.q + column;
    return q < params_.w.outputs ? convert<float>(y[at.from + q * params_.shape.columns.y_step])
                                 : 0.0f;
  }

  const Params& params_;
  const BlockShare& share_;
  const Shared& shared_;
  int lane_, stride_;
  bool has_suspects_ = false;
  SharedRow rows_[m];
  float sums_[m][n][4];
};

}  // namespace plumb::cuda::depthwise_toeplitz
