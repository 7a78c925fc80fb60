// Depthwise convolutions with lanes along the channels, for images whose channels lie side by side:
// x is read as it lies through L1, weights come to shared memory in stages of a few taps a row.
#pragma once

#include "cuda_kernels/depthwise/depthwise_params.cuh"
#include "cuda_kernels/depthwise/depthwise_vectors.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::depthwise {

template <class Stored, int width, int chunk, int stride>
class ChannelBlock {
 public:
  using Scalar = Sum<Stored>;

  __device__ ChannelBlock(const DepthwiseParams& params, const Stored* x, const Stored* w)
      : params_(params), x_(x), w_(w) {
    const DeepShape<int>& shape = params.shape;
    filters_ = reinterpret_cast<Scalar*>(dynamic_shared());
    columns_ = reinterpret_cast<int*>(dynamic_shared() + params.filter_bytes);
    const auto [above_c, tile_c] = params.tiles_c.divide(static_cast<int>(blockIdx.x));
    const auto [above_w, tile_w] = params.tiles_w.divide(above_c);
    const auto [above_u, tile_u] = params.tiles_u.divide(above_w);
    const auto [n, z] = shape.z.divide(above_u);
    n_ = n, z_ = z;
    const auto [above, lane_c] = params.lanes_c.divide(static_cast<int>(threadIdx.x));
    const auto [lane_u, lane_w] = params.lanes_w.divide(above);
    lane_c_ = lane_c, lane_w_ = lane_w;
    first_k_ = tile_c * params.lanes_c.value() * width;
    k_ = first_k_ + lane_c * width;
    tile_q_ = tile_w * params.lanes_w.value() * columns;
    p_ = (tile_u * params.lanes_u.value() + lane_u) * rows;
    q_ = tile_q_ + lane_w * columns;
    active_ = k_ < shape.k.value() && lane_u < params.lanes_u.value() && p_ < shape.p.value() &&
              q_ < shape.q.value();
    const ConvAxis<int>& axis = shape.columns;
    const int first = axis.first(q_);
    const int last =
        first + (columns - 1) * axis.stride + (axis.taps + chunk - 2) * axis.dilation + chunk - 1;
    inside_ = first >= 0 && last < axis.extent;
  }

  __device__ void run() {
    const ConvAxis<int>& depth = params_.shape.depth;
    const ConvAxis<int>& axis = params_.shape.columns;
    for (int i = static_cast<int>(threadIdx.x); i < params_.columns;
         i += static_cast<int>(blockDim.x))
      columns_[i] = at_boundary(axis.boundary, axis.first(tile_q_) + i, axis.extent);
    for (int t = 0; t < depth.taps; ++t) {
      const int d = depth.source(depth.first(z_), t);
      for (int first = 0; first < axis.taps; first += chunk) {
        __syncthreads();
        load_filters(t, first);
        __syncthreads();
        if (active_ && d >= 0) add(d, first);
      }
    }
  }

  __device__ void write(Stored* y, const Epilogue<Stored>& epilogue) const {
    if (!active_) return;
    const DeepShape<int>& shape = params_.shape;
    y += n_ * shape.y_n + z_ * shape.depth.y_step + k_ * shape.y_k;
    Scalar bias[width];
#pragma unroll
    for (int e = 0; e < width; ++e) bias[e] = epilogue.template bias_of<Scalar>(k_ + e);
#pragma unroll
    for (int j = 0; j < rows; ++j) {
      if (p_ + j >= shape.p.value()) break;
#pragma unroll
      for (int i = 0; i < columns; ++i) {
        if (q_ + i >= shape.q.value()) break;
        Stored* const to = y + ((p_ + j) * shape.rows.y_step + (q_ + i) * shape.columns.y_step);
        Channels<Stored, width> values{};
        if (epilogue.accumulate) values = read_channels<Stored, width>(to);
#pragma unroll
        for (int e = 0; e < width; ++e) {
          Scalar sum = sums_[j][i][e];
          if (sum != sum) sum = defined_sum(params_, x_, w_, n_, k_ + e, z_, p_ + j, q_ + i);
          sum += bias[e];
          values.of[e] =
              epilogue.finish(sum, epilogue.accumulate ? convert<Scalar>(values.of[e]) : Scalar{0});
        }
        write_channels(to, values);
      }
    }
  }

 private:
  static constexpr DepthwiseForm form{width, chunk, stride};
  static constexpr int rows = depthwise_rows(DepthwiseKernel::channels, form, sizeof(Stored));
  static constexpr int columns = depthwise_columns(DepthwiseKernel::channels, form, sizeof(Stored));
  static constexpr int window = stride == 0 ? columns : (columns - 1) * stride + chunk;

  /// Loads a stage: all taps along the rows, `chunk` along the columns, channels side by side.
  __device__ void load_filters(int t, int first) const {
    const DeepShape<int>& shape = params_.shape;
    const int channels = params_.lanes_c.value() * width;
    const int all = params_.row_taps.value() * channels;
    for (int i = static_cast<int>(threadIdx.x); i < all; i += static_cast<int>(blockDim.x)) {
      const auto [channel, tap] = params_.row_taps.divide(i);
      const int r = tap / chunk, s = first + tap % chunk, k = first_k_ + channel;
      if (k < shape.k.value() && s < shape.columns.taps)
        filters_[tap * channels + channel] =
            convert<Scalar>(w_[k * shape.w_k + t * shape.depth.w_step + r * shape.rows.w_step +
                               s * shape.columns.w_step]);
    }
  }

  /// Adds the stage of the taps from `first` on in the plane `d`. A row of the input is read once
  /// for all output rows of the thread that it adds to.
  __device__ void add(int d, int first) {
    const DeepShape<int>& shape = params_.shape;
    const ConvAxis<int>& axis = shape.rows;
    const Stored* const plane =
        x_ + (n_ * shape.x_n + shape.group_k.quotient(k_) * shape.x_c + d * shape.depth.x_step);
    const int last = (rows - 1) * axis.stride + (axis.taps - 1) * axis.dilation;
    for (int i = 0; i <= last; ++i) {
      int taps[rows];
      bool any = false;
#pragma unroll
      for (int j = 0; j < rows; ++j) taps[j] = tap_of(params_, i, j), any = any || taps[j] >= 0;
      const int h = at_boundary(axis.boundary, axis.first(p_) + i, axis.extent);
      if (!any || h < 0) continue;
      Scalar input[window][width];
      read(plane + h * axis.x_step, first, input);
      const int left = shape.columns.taps - first;
#pragma unroll
      for (int j = 0; j < rows; ++j) {
        if (taps[j] < 0) continue;
#pragma unroll
        for (int s = 0; s < chunk; ++s) {
          if (chunk == 4 && s >= left) break;
          const Scalar* const weights =
              filters_ + ((taps[j] * chunk + s) * params_.lanes_c.value() + lane_c_) * width;
          add_tap(input, s, weights, sums_[j]);
        }
      }
    }
  }

  __device__ static void add_tap(const Scalar (&input)[window][width], int s, const Scalar* weights,
                                 Scalar (&sums)[columns][width]) {
    struct alignas(width * sizeof(Scalar) > 16 ? 16 : width * sizeof(Scalar)) Weights {
      Scalar of[width];
    };
    const Weights weight = *reinterpret_cast<const Weights*>(weights);
#pragma unroll
    for (int i = 0; i < columns; ++i)
#pragma unroll
      for (int e = 0; e < width; ++e)
        sums[i][e] = fma(input[i * (stride == 0 ? 1 : stride) + s][e], weight.of[e], sums[i][e]);
  }

  /// Reads the columns that the taps from `first` on meet. What lies in a padding is zero.
  __device__ void read(const Stored* row, int first, Scalar (&input)[window][width]) const {
    const ConvAxis<int>& axis = params_.shape.columns;
    const int skip = stride == 0 ? axis.stride : 1;
    const int from = first * axis.dilation;
    if (inside_) {
      const Stored* here = row + (axis.first(q_) + from) * axis.x_step;
#pragma unroll
      for (int i = 0; i < window; ++i) {
        const Channels<Stored, width> values = read_channels<Stored, width>(here);
        here += skip * axis.x_step;
#pragma unroll
        for (int e = 0; e < width; ++e) input[i][e] = convert<Scalar>(values.of[e]);
      }
    } else {
      const int* const columns_here = columns_ + (lane_w_ * columns * axis.stride + from);
#pragma unroll
      for (int i = 0; i < window; ++i) {
        const int v = columns_here[i * skip];
        Channels<Stored, width> values{};
        if (v >= 0) values = read_channels<Stored, width>(row + v * axis.x_step);
#pragma unroll
        for (int e = 0; e < width; ++e) input[i][e] = convert<Scalar>(values.of[e]);
      }
    }
  }

  const DepthwiseParams& params_;
  const Stored *x_, *w_;
  Scalar* filters_;
  int* columns_;  ///< of the input under the block, where they lie in the image, or -1
  int n_, z_, first_k_, k_, tile_q_, p_, q_, lane_c_, lane_w_;
  bool active_, inside_;
  Scalar sums_[rows][columns][width] = {};
};

template <class Stored, int width, int chunk, int stride>
__global__ void __launch_bounds__(depthwise_threads, width == 8 && stride == 2 ? 2 : 3)
    depthwise_channels(const __grid_constant__ DepthwiseParams params, const Stored* x,
                       const Stored* w, Stored* y,
                       const __grid_constant__ Epilogue<Stored> epilogue) {
  ChannelBlock<Stored, width, chunk, stride> block(params, x, w);
  block.run();
  block.write(y, epilogue);
}

}  // namespace plumb::cuda::depthwise
