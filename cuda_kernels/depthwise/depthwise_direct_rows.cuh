// Depthwise convolutions of so few outputs that they are over after one wait for memory, in planes.
// A thread has some neighbouring outputs of a row, and reads the filter and all of x under them at
// once. Neighbours read the same again, from L1.
#pragma once

#include "cuda_kernels/depthwise/depthwise_finish.cuh"

namespace plumb::cuda::depthwise {

struct DirectRowsParams {
  DeepShape<int> shape;
  Divisor<int> chunks;  ///< of a row of outputs
  int all_chunks = 1;   ///< of all rows
  bool whole = false;   ///< outputs of a chunk are written at once
};

template <class Stored, int taps, int stride>
class DirectRows {
 public:
  using Scalar = Sum<Stored>;

  /// `chunk`: its number among all.
  __device__ DirectRows(const DirectRowsParams& params, int chunk, const Stored* x, const Stored* w)
      : params_(params), x_(x), w_(w) {
    const DeepShape<int>& shape = params.shape;
    const auto [row, of_row] = params.chunks.divide(chunk);
    const auto [plane, of_plane] = shape.p.divide(row);
    const auto [image, channel] = shape.k.divide(plane);
    n_ = image, k_ = channel, p_ = of_plane, q_ = of_row * columns;
    written_ = min(columns, shape.q.value() - q_);
  }

  __device__ void run(Stored* y, const Epilogue<Stored>& epilogue) const {
    Stored input[taps][window], filter[taps][taps];
    read(input, filter);
    Scalar sums[columns][1] = {};
#pragma unroll
    for (int r = 0; r < taps; ++r)
#pragma unroll
      for (int s = 0; s < taps; ++s)
#pragma unroll
        for (int i = 0; i < columns; ++i)
          sums[i][0] = fma(convert<Scalar>(input[r][i * stride + s]), convert<Scalar>(filter[r][s]),
                           sums[i][0]);
    const DeepShape<int>& shape = params_.shape;
    const int step = shape.columns.y_step;
    Stored* const to = y + (n_ * shape.y_n + k_ * shape.y_k + p_ * shape.rows.y_step + q_ * step);
    if (finish_image(shape, x_, w_, sums, {n_, k_, p_, q_, written_}, to, epilogue))
      write(sums, to);
  }

 private:
  static constexpr int columns = direct_row_columns(sizeof(Stored)),
                       window = (columns - 1) * stride + taps;

  /// Has all reads under way, and zeros where there is nothing to read.
  __device__ __forceinline__ void read(Stored (&input)[taps][window],
                                       Stored (&filter)[taps][taps]) const {
    const DeepShape<int>& shape = params_.shape;
    const int h = shape.rows.first(p_), v = shape.columns.first(q_);
    const Stored* const first =
        x_ + (n_ * shape.x_n + k_ * shape.x_c + h * shape.rows.x_step + v * shape.columns.x_step);
#pragma unroll
    for (int r = 0; r < taps; ++r)
#pragma unroll
      for (int i = 0; i < window; ++i) {
        const bool there =
            static_cast<unsigned>(h + r) < static_cast<unsigned>(shape.rows.extent) &&
            static_cast<unsigned>(v + i) < static_cast<unsigned>(shape.columns.extent);
        input[r][i] =
            there ? first[r * shape.rows.x_step + i * shape.columns.x_step] : convert<Stored>(0.0f);
      }
#pragma unroll
    for (int r = 0; r < taps; ++r)
#pragma unroll
      for (int s = 0; s < taps; ++s)
        filter[r][s] = w_[k_ * shape.w_k + r * shape.rows.w_step + s * shape.columns.w_step];
  }
  __device__ void write(const Scalar (&sums)[columns][1], Stored* to) const {
    if (params_.whole) {
      Scalar row[columns];
#pragma unroll
      for (int i = 0; i < columns; ++i) row[i] = sums[i][0];
      write_channels(to, rounded_channels<Stored>(row));
      return;
    }
#pragma unroll
    for (int i = 0; i < columns; ++i)
      if (i < written_)
        write_channels(to + i * params_.shape.columns.y_step, rounded_channels<Stored>(sums[i]));
  }

  const DirectRowsParams& params_;
  const Stored *x_, *w_;
  int n_, k_, p_, q_;
  int written_;  ///< outputs that y has
};

template <class Stored, int taps, int stride>
__global__ void __launch_bounds__(direct_threads, direct_row_blocks)
    depthwise_direct_rows(const __grid_constant__ DirectRowsParams params, const Stored* x,
                          const Stored* w, Stored* y,
                          const __grid_constant__ Epilogue<Stored> epilogue) {
  const int chunk = static_cast<int>(blockIdx.x * direct_threads + threadIdx.x);
  if (chunk < params.all_chunks)
    DirectRows<Stored, taps, stride>(params, chunk, x, w).run(y, epilogue);
}

}  // namespace plumb::cuda::depthwise
