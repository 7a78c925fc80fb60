// Depthwise convolutions of so few outputs that they are over after one wait for memory: images one
// at a time, whose channels lie side by side. A thread has a vector of channels of two neighbouring
// outputs and reads all of x under them at once, while the block's weights come to shared memory.
// Neighbours read the same again, from L1.
#pragma once

#include "cuda_kernels/depthwise/depthwise_filters.cuh"
#include "cuda_kernels/depthwise/depthwise_finish.cuh"
#include "cuda_kernels/depthwise/depthwise_params.cuh"

namespace plumb::cuda::depthwise {

struct DirectParams {
  DeepShape<int> shape;
  Divisor<int> slices;  ///< of the channels
  Divisor<int> lanes;   ///< of a block along a slice's vectors of channels
  Divisor<int> chunks;  ///< of a row of outputs
  int places = 1;       ///< chunks of a block
  int all_places = 1;   ///< of all images
};

template <class Stored, int taps, int stride>
class Direct {
 public:
  using Scalar = Sum<Stored>;

  __device__ Direct(const DirectParams& params, const Stored* x, const Stored* w)
      : params_(params), x_(x), w_(w), weights_(reinterpret_cast<Scalar*>(dynamic_shared())) {
    const auto [group, slice] = params.slices.divide(static_cast<int>(blockIdx.x));
    const auto [place, lane] = params.lanes.divide(static_cast<int>(threadIdx.x));
    const DeepShape<int>& shape = params.shape;
    const int number = group * params.places + place;
    const auto [row, chunk] = params.chunks.divide(min(number, params.all_places - 1));
    const auto [image, of_image] = shape.p.divide(row);
    n_ = image, p_ = of_image, q_ = chunk * columns;
    first_k_ = slice * params.lanes.value() * width, lane_ = lane;
    const bool some = place < params.places && number < params.all_places &&
                      first_k_ + lane * width < shape.k.value();
    written_ = some ? min(columns, shape.q.value() - q_) : 0;
  }

  __device__ void run(Stored* y, const Epilogue<Stored>& epilogue) {
    Vector input[taps][window];
    read(input);
    load_filters<taps, width, 8>(params_.shape, w_, first_k_, params_.lanes.value() * width,
                                 weights_);
    __syncthreads();
    Scalar sums[columns][width] = {};
#pragma unroll
    for (int r = 0; r < taps; ++r)
#pragma unroll
      for (int s = 0; s < taps; ++s) {
        const auto weight =
            read_channels<Scalar, width>(weights_ + (lane_ * taps * taps + r * taps + s) * width);
#pragma unroll
        for (int i = 0; i < columns; ++i)
#pragma unroll
          for (int e = 0; e < width; ++e)
            sums[i][e] =
                fma(convert<Scalar>(input[r][i * stride + s].of[e]), weight.of[e], sums[i][e]);
      }
    if (written_ > 0) write(sums, y, epilogue);
  }

 private:
  static constexpr int width = direct_width(sizeof(Stored)), columns = direct_columns;
  static constexpr int window = (columns - 1) * stride + taps;
  using Vector = Channels<Stored, width>;

  __device__ int k() const { return first_k_ + lane_ * width; }

  /// Has all reads under way, and zeros where there is nothing to read.
  __device__ __forceinline__ void read(Vector (&input)[taps][window]) const {
    const DeepShape<int>& shape = params_.shape;
    const int h = shape.rows.first(p_), v = shape.columns.first(q_);
    const Stored* const first =
        x_ + (n_ * shape.x_n + k() * shape.x_c + h * shape.rows.x_step + v * shape.columns.x_step);
#pragma unroll
    for (int r = 0; r < taps; ++r)
#pragma unroll
      for (int i = 0; i < window; ++i) {
        const bool there =
            written_ > 0 &&
            static_cast<unsigned>(h + r) < static_cast<unsigned>(shape.rows.extent) &&
            static_cast<unsigned>(v + i) < static_cast<unsigned>(shape.columns.extent);
        input[r][i] = there ? read_channels<Stored, width>(first + r * shape.rows.x_step +
                                                           i * shape.columns.x_step)
                            : Vector{};
      }
  }

  __device__ __forceinline__ void write(Scalar (&sums)[columns][width], Stored* y,
                                        const Epilogue<Stored>& epilogue) const {
    const DeepShape<int>& shape = params_.shape;
    const int step = shape.columns.y_step;
    Stored* const to = y + (n_ * shape.y_n + k() * shape.y_k + p_ * shape.rows.y_step + q_ * step);
    if (!finish_image(shape, x_, w_, sums, {n_, k(), p_, q_, written_}, to, epilogue)) return;
#pragma unroll
    for (int i = 0; i < columns; ++i)
      if (i < written_) write_channels(to + i * step, rounded_channels<Stored>(sums[i]));
  }

  const DirectParams& params_;
  const Stored *x_, *w_;
  Scalar* weights_;
  int first_k_;           ///< of the block
  int n_, p_, q_, lane_;  ///< of the thread
  int written_;           ///< outputs of the thread that y has
};

template <class Stored, int taps, int stride>
__global__ void __launch_bounds__(direct_threads, direct_blocks)
    depthwise_direct(const __grid_constant__ DirectParams params, const Stored* x, const Stored* w,
                     Stored* y, const __grid_constant__ Epilogue<Stored> epilogue) {
  Direct<Stored, taps, stride> block(params, x, w);
  block.run(y, epilogue);
}

}  // namespace plumb::cuda::depthwise
