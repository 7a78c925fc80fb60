// Depthwise convolutions of small images whose planes follow each other in memory: a block has some
// whole planes, with their padding, in shared memory. What lies side by side in x and y moves in
// vectors, however short rows are, and a thread makes neighbouring outputs of one row.
#pragma once

#include "cuda_kernels/depthwise/depthwise_params.cuh"
#include "cuda_kernels/depthwise/depthwise_vectors.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::depthwise {

struct WholeParams {
  DeepShape<int> shape;
  Divisor<int> x_plane, x_row;  ///< elements of a plane and of a row of x
  Divisor<int> groups;          ///< of columns, in a row of outputs
  int planes = 0, all_planes = 0;
  int y_plane = 0;                            ///< elements of a plane of y
  int tile_rows = 0, pitch = 0;               ///< of a plane in shared memory, padding included
  int filter_bytes = 0, y_bytes = 0;          ///< of a block's filters and outputs
  bool x_vectors = false, y_vectors = false;  ///< whether a block's planes are aligned vectors
};

/// Returns a sum by its definition: zeros of the padding may have met an Inf, which gives a NaN.
template <class Stored>
__device__ __noinline__ Sum<Stored> whole_sum(const WholeParams& params, const Stored* x,
                                              const Stored* w, int plane, int k, int p, int q) {
  return deep_sum<Sum<Stored>>(params.shape, x + plane * params.x_plane.value(),
                               w + k * params.shape.w_k, 0, p, q);
}

template <class Stored, int taps, int stride, int dilation>
class Whole {
 public:
  using Scalar = Sum<Stored>;

  __device__ Whole(const WholeParams& params, const Stored* x, const Stored* w, Stored* y)
      : params_(params),
        x_(x),
        w_(w),
        y_(y),
        thread_(static_cast<int>(threadIdx.x)),
        threads_(static_cast<int>(blockDim.x)),
        first_(static_cast<int>(blockIdx.x) * params.planes),
        count_(min(params.planes, params.all_planes - first_)) {
    auto* const shared = dynamic_shared();
    filters_ = reinterpret_cast<Scalar*>(shared);
    outputs_ = reinterpret_cast<Stored*>(shared + params.filter_bytes);
    tiles_ = reinterpret_cast<Scalar*>(shared + params.filter_bytes + params.y_bytes);
  }

  __device__ void run(const Epilogue<Stored>& epilogue) {
    clear();
    load_filters();
    __syncthreads();
    load_planes();
    __syncthreads();
    const int rows = params_.shape.p.value(), items = count_ * rows * params_.groups.value();
#pragma unroll 1
    for (int item = thread_; item < items; item += threads_) {
      const auto [line, group] = params_.groups.divide(item);
      const auto [plane, p] = params_.shape.p.divide(line);
      make(plane, p, group * columns, epilogue);
    }
    __syncthreads();
    write_planes();
  }

 private:
  static constexpr WholeForm form{taps, stride, dilation};
  static constexpr int columns = whole_columns(sizeof(Stored));
  static constexpr int window = whole_window(form, columns);
  static constexpr int vector = 16 / sizeof(Stored);  ///< elements that move at once
  static constexpr int word = 16 / sizeof(Scalar);

  __device__ int tile() const { return params_.tile_rows * params_.pitch; }
  __device__ int filter() const { return params_.shape.rows.taps * taps; }
  /// Which channel a plane of the block is.
  __device__ int channel(int plane) const {
    return params_.shape.k.divide(first_ + plane).remainder;
  }

  /// The padding is zeros.
  __device__ void clear() const {
    const Channels<Scalar, word> zeros{};
    for (int i = thread_ * word; i < params_.planes * tile(); i += threads_ * word)
      write_channels(tiles_ + i, zeros);
  }

  __device__ void load_filters() const {
    const DeepShape<int>& shape = params_.shape;
    const int all = count_ * filter();
    for (int i = thread_; i < all; i += threads_) {
      const int line = i / taps, s = i - line * taps;
      const int plane = line / shape.rows.taps, r = line - plane * shape.rows.taps;
      filters_[i] = convert<Scalar>(
          w_[channel(plane) * shape.w_k + r * shape.rows.w_step + s * shape.columns.w_step]);
    }
  }

  /// Where an element of the block's planes lies.
  struct Place {
    int plane, row, column;
  };
  __device__ Place place(int element) const {
    const auto [plane, in_plane] = params_.x_plane.divide(element);
    const auto [row, column] = params_.x_row.divide(in_plane);
    return {plane, row, column};
  }
  __device__ Scalar& in_tile(const Place& at) const {
    return tiles_[(at.plane * params_.tile_rows + at.row + params_.shape.rows.before) *
                      params_.pitch +
                  at.column + params_.shape.columns.before];
  }

  __device__ void load_planes() const {
    const Stored* const from = x_ + first_ * params_.x_plane.value();
    const int all = count_ * params_.x_plane.value();
    int whole = 0;
    if (params_.x_vectors) {
      whole = all / vector * vector;
#pragma unroll 2
      for (int i = thread_ * vector; i < whole; i += threads_ * vector)
        put(place(i), read_channels<Stored, vector>(from + i));
    }
#pragma unroll 2
    for (int i = whole + thread_; i < all; i += threads_)
      in_tile(place(i)) = convert<Scalar>(from[i]);
  }
  /// Puts neighbours in memory where they belong: rows and planes may end among them.
  __device__ void put(Place at, const Channels<Stored, vector>& values) const {
    Scalar* to = &in_tile(at);
#pragma unroll
    for (int e = 0; e < vector; ++e) {
      *to++ = convert<Scalar>(values.of[e]);
      if (++at.column < params_.x_row.value()) continue;
      at.column = 0;
      if (++at.row == params_.shape.rows.extent) at.row = 0, ++at.plane;
      to = &in_tile(at);
    }
  }

  /// Makes neighbouring outputs of a row, those beyond its end too, which are not kept.
  __device__ void make(int plane, int p, int q, const Epilogue<Stored>& epilogue) const {
    const DeepShape<int>& shape = params_.shape;
    const Scalar* line =
        tiles_ + (plane * params_.tile_rows + p * shape.rows.stride) * params_.pitch + q * stride;
    const Scalar* weights = filters_ + plane * filter();
    Scalar sums[columns] = {};
#pragma unroll 1
    for (int r = 0; r < shape.rows.taps; ++r) {
      add_row(line, weights, sums);
      line += shape.rows.dilation * params_.pitch, weights += taps;
    }
    const int k = channel(plane);
    const Scalar bias = epilogue.template bias_of<Scalar>(k);
    const int at = plane * params_.y_plane + p * shape.q.value() + q;
    const auto keep = [&](int i, Scalar sum) {
      const Scalar old =
          epilogue.accumulate ? convert<Scalar>(y_[first_ * params_.y_plane + at + i]) : Scalar{0};
      outputs_[at + i] = epilogue.finish(sum + bias, old);
    };
    unsigned undefined = 0;
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      if (q + i >= shape.q.value()) break;
      if (sums[i] == sums[i])
        keep(i, sums[i]);
      else
        undefined |= 1u << i;
    }
    // A call among the sums would have all of them saved around it.
#pragma unroll 1
    for (int i = 0; undefined >> i != 0; ++i)
      if (undefined >> i & 1) keep(i, whole_sum(params_, x_, w_, first_ + plane, k, p, q + i));
  }

  __device__ void add_row(const Scalar* line, const Scalar* weights,
                          Scalar (&sums)[columns]) const {
    if constexpr (dilation == 0) {
#pragma unroll
      for (int s = 0; s < taps; ++s)
#pragma unroll
        for (int i = 0; i < columns; ++i)
          sums[i] = fma(line[s * params_.shape.columns.dilation + i], weights[s], sums[i]);
    } else {
      Scalar input[window];
#pragma unroll
      for (int i = 0; i < window; i += word) {
        const auto values = read_channels<Scalar, word>(line + i);
#pragma unroll
        for (int e = 0; e < word; ++e) input[i + e] = values.of[e];
      }
#pragma unroll
      for (int s = 0; s < taps; ++s)
#pragma unroll
        for (int i = 0; i < columns; ++i)
          sums[i] = fma(input[i * stride + s * dilation], weights[s], sums[i]);
    }
  }

  __device__ void write_planes() const {
    Stored* const to = y_ + first_ * params_.y_plane;
    const int all = count_ * params_.y_plane;
    int whole = 0;
    if (params_.y_vectors) {
      whole = all / vector * vector;
      for (int i = thread_ * vector; i < whole; i += threads_ * vector)
        write_channels(to + i, read_channels<Stored, vector>(outputs_ + i));
    }
    for (int i = whole + thread_; i < all; i += threads_) to[i] = outputs_[i];
  }

  const WholeParams& params_;
  const Stored *x_, *w_;
  Stored* y_;
  int thread_, threads_, first_, count_;
  Scalar *filters_, *tiles_;
  Stored* outputs_;
};

template <class Stored, int taps, int stride, int dilation>
__global__ void __launch_bounds__(depthwise_threads, whole_blocks(sizeof(Stored)))
    depthwise_whole(const __grid_constant__ WholeParams params, const Stored* x, const Stored* w,
                    Stored* y, const __grid_constant__ Epilogue<Stored> epilogue) {
  Whole<Stored, taps, stride, dilation> block(params, x, w, y);
  block.run(epilogue);
}

}  // namespace plumb::cuda::depthwise
