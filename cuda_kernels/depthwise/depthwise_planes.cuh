// Depthwise convolutions with lanes along the rows: a block has several planes of images, or a tile
// of one, in shared memory, where sums find them as floats or doubles whatever they are stored as.
#pragma once

#include "cuda_kernels/depthwise/depthwise_params.cuh"
#include "cuda_kernels/primitives/async_copy.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::depthwise {

/// A plane of the output: where it lies.
struct DepthwisePlane {
  int n, k, z;
};

template <class Stored, int groups, int chunk, int stride>
class Planes {
 public:
  using Scalar = Sum<Stored>;

  __device__ Planes(const DepthwiseParams& params, const Stored* x, const Stored* w)
      : params_(params), x_(x), w_(w) {
    auto* const shared = dynamic_shared();
    filters_ = reinterpret_cast<Scalar*>(shared);
    tiles_ = reinterpret_cast<Scalar*>(shared + params.filter_bytes);
    const auto [above, tile_w] = params.tiles_w.divide(static_cast<int>(blockIdx.x));
    const auto [group, tile_u] = params.tiles_u.divide(above);
    first_plane_ = group * params.planes;
    const int thread = static_cast<int>(threadIdx.x);
    const auto [above_w, lane_w] = params.lanes_w.divide(thread);
    const auto [plane, lane_u] = params.lanes_u.divide(above_w);
    plane_ = plane, lane_w_ = lane_w, row_ = lane_u * rows;
    tile_p_ = tile_u * params.lanes_u.value() * rows;
    tile_q_ = tile_w * params.lanes_w.value() * (4 * groups);
    active_ = plane < params.planes && first_plane_ + plane < params.all_planes &&
              tile_p_ + row_ < params.shape.p.value();
  }

  __device__ void run() {
    load_filters();
    const ConvAxis<int>& depth = params_.shape.depth;
    for (int t = 0; t < depth.taps; ++t) {
      if (t > 0) __syncthreads();
      load_tiles(t);
      wait_for_copies();
      __syncthreads();
      if (active_ && depth.source(depth.first(place(first_plane_ + plane_).z), t) >= 0) add(t);
    }
  }

  __device__ void write(Stored* y, const Epilogue<Stored>& epilogue) const {
    if (!active_) return;
    const DeepShape<int>& shape = params_.shape;
    const DepthwisePlane at = place(first_plane_ + plane_);
    const Scalar bias = epilogue.template bias_of<Scalar>(at.k);
    y += at.n * shape.y_n + at.k * shape.y_k + at.z * shape.depth.y_step;
#pragma unroll
    for (int j = 0; j < rows; ++j) {
      const int p = tile_p_ + row_ + j;
      if (p >= shape.p.value()) break;
#pragma unroll
      for (int i = 0; i < 4 * groups; ++i) {
        const int q = tile_q_ + column(i);
        if (q >= shape.q.value()) continue;
        Scalar sum = sums_[j][i];
        if (sum != sum) sum = defined_sum(params_, x_, w_, at.n, at.k, at.z, p, q);
        Stored& output = y[p * shape.rows.y_step + q * shape.columns.y_step];
        sum += bias;
        output = epilogue.finish(sum, epilogue.accumulate ? convert<Scalar>(output) : Scalar{0});
      }
    }
  }

 private:
  static constexpr int rows = 4, room = depthwise_room(chunk);
  static constexpr int window = stride == 0 ? 4 : (3 * stride + chunk + 3) / 4 * 4;

  /// Four neighbours of a thread make a vector, and lanes have neighbouring vectors; where nothing
  /// is read in vectors lanes have neighbouring columns.
  __device__ int column(int i) const {
    if constexpr (stride == 0)
      return lane_w_ + params_.lanes_w.value() * i;
    else
      return (lane_w_ + params_.lanes_w.value() * (i / 4)) * 4 + i % 4;
  }

  __device__ DepthwisePlane place(int plane) const {
    const auto [image, z] = params_.shape.z.divide(plane);
    const auto [n, k] = params_.shape.k.divide(image);
    return {n, k, z};
  }
  __device__ int count() const { return min(params_.planes, params_.all_planes - first_plane_); }
  __device__ int chunks() const { return (params_.shape.columns.taps + chunk - 1) / chunk; }
  __device__ int filter_elements() const {
    return (params_.shape.depth.taps * params_.shape.rows.taps * chunks() * room + 3) / 4 * 4;
  }

  __device__ void load_filters() const {
    const DeepShape<int>& shape = params_.shape;
    const int taps_s = shape.columns.taps, taps_r = shape.rows.taps;
    const int taps = shape.depth.taps * taps_r * taps_s, all = count() * taps;
    for (int i = static_cast<int>(threadIdx.x); i < all; i += static_cast<int>(blockDim.x)) {
      const int plane = i / taps, tap = i - plane * taps;
      const int line = tap / taps_s, s = tap - line * taps_s;
      const int t = line / taps_r, r = line - t * taps_r;
      const int k = place(first_plane_ + plane).k;
      filters_[plane * filter_elements() + (line * chunks() + s / chunk) * room + s % chunk] =
          convert<Scalar>(w_[k * shape.w_k + t * shape.depth.w_step + r * shape.rows.w_step +
                             s * shape.columns.w_step]);
    }
  }

  /// Loads what the tap `t` along the depth meets, a group of threads a row. What lies in a padding
  /// of zeros is zero.
  __device__ void load_tiles(int t) const {
    const DeepShape<int>& shape = params_.shape;
    const int lanes = 1 << params_.row_bits, lane = static_cast<int>(threadIdx.x) & (lanes - 1);
    const int step = static_cast<int>(blockDim.x) >> params_.row_bits;
    const int first_h = shape.rows.first(tile_p_), first_w = shape.columns.first(tile_q_);
    const int lines = count() * params_.rows.value();
    for (int line = static_cast<int>(threadIdx.x) >> params_.row_bits; line < lines; line += step) {
      const auto [plane, row] = params_.rows.divide(line);
      const DepthwisePlane at = place(first_plane_ + plane);
      const int d = shape.depth.source(shape.depth.first(at.z), t);
      const int h = at_boundary(shape.rows.boundary, first_h + row, shape.rows.extent);
      const bool there = d >= 0 && h >= 0;
      const Stored* const from = x_ + at.n * shape.x_n + shape.group_k.quotient(at.k) * shape.x_c +
                                 (there ? d * shape.depth.x_step + h * shape.rows.x_step : 0);
      Scalar* const to = tiles_ + line * params_.pitch;
#pragma unroll 4
      for (int i = lane; i < params_.columns; i += lanes) {
        const int v = at_boundary(shape.columns.boundary, first_w + i, shape.columns.extent);
        load(to + i, from + (v < 0 ? 0 : v * shape.columns.x_step), there && v >= 0);
      }
    }
  }

  __device__ static void load(Scalar* to, const Stored* from, bool there) {
    if constexpr (std::is_same_v<Scalar, Stored>)
      copy_bytes_async<sizeof(Scalar)>(to, from, there);
    else
      *to = there ? convert<Scalar>(*from) : Scalar{0};
  }

  /// Adds the tap `t` along the depth. A row of the input is read once for all output rows of the
  /// thread that it adds to.
  __device__ void add(int t) {
    const ConvAxis<int>& axis = params_.shape.rows;
    const int first = row_ * axis.stride;
    const int last = (rows - 1) * axis.stride + (axis.taps - 1) * axis.dilation;
    const int h = axis.first(tile_p_ + row_);
    const Scalar* const tile = tiles_ + (plane_ * params_.rows.value() + first) * params_.pitch;
    const Scalar* const filter =
        filters_ + plane_ * filter_elements() + t * axis.taps * chunks() * room;
    for (int i = 0; i <= last; ++i) {
      if (axis.boundary == Boundary::zeros && (h + i < 0 || h + i >= axis.extent)) continue;
      int taps[rows];
      bool any = false;
#pragma unroll
      for (int j = 0; j < rows; ++j) taps[j] = tap_of(params_, i, j), any = any || taps[j] >= 0;
      if (!any) continue;
      for (int c = 0; c < chunks(); ++c)
        add_chunk(tile + i * params_.pitch, filter + c * room, taps, c * chunk);
    }
  }

  __device__ void add_chunk(const Scalar* line, const Scalar* filter, const int (&taps)[rows],
                            int first) {
    Scalar input[groups][window];
#pragma unroll
    for (int g = 0; g < groups; ++g) read(line, g, first, input[g]);
    const int left = params_.shape.columns.taps - first;
#pragma unroll
    for (int j = 0; j < rows; ++j) {
      if (taps[j] < 0) continue;
      Scalar weights[room];
      read_vectors_of(filter + taps[j] * (chunks() * room), weights);
#pragma unroll
      for (int s = 0; s < chunk; ++s) {
        if (chunk == 4 && s >= left) break;
#pragma unroll
        for (int g = 0; g < groups; ++g)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            sums_[j][4 * g + i] =
                fma(input[g][i * stride + (stride == 0 ? i : s)], weights[s], sums_[j][4 * g + i]);
      }
    }
  }

  __device__ void read(const Scalar* line, int g, int first, Scalar (&to)[window]) const {
    const ConvAxis<int>& axis = params_.shape.columns;
    if constexpr (stride == 0) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        to[i] = line[column(4 * g + i) * axis.stride + first * axis.dilation];
    } else {
      read_vectors_of(line + (column(4 * g) * stride + first), to);
    }
  }

  template <int elements>
  __device__ static void read_vectors_of(const Scalar* from, Scalar (&to)[elements]) {
    if constexpr (elements % 4 == 0) {
      struct alignas(16) Vector {
        Scalar of[16 / sizeof(Scalar)];
      };
      constexpr int vector = 16 / sizeof(Scalar);
#pragma unroll
      for (int i = 0; i < elements; i += vector) {
        const Vector values = *reinterpret_cast<const Vector*>(from + i);
#pragma unroll
        for (int e = 0; e < vector; ++e) to[i + e] = values.of[e];
      }
    } else {
#pragma unroll
      for (int i = 0; i < elements; ++i) to[i] = from[i];
    }
  }

  const DepthwiseParams& params_;
  const Stored *x_, *w_;
  Scalar *filters_, *tiles_;
  int first_plane_, plane_, lane_w_, row_, tile_p_, tile_q_;
  bool active_;
  Scalar sums_[rows][4 * groups] = {};
};

/// So many blocks on a multiprocessor leave each thread the registers that it needs: doubles take
/// two.
template <class Stored, int groups>
inline constexpr int planes_at_once = sizeof(Stored) == 8 ? (groups == 1 ? 4 : 2)
                                                          : (groups == 1 ? 6 : 4);

template <class Stored, int groups, int chunk, int stride>
__global__ void __launch_bounds__(depthwise_threads, planes_at_once<Stored, groups>)
    depthwise_planes(const __grid_constant__ DepthwiseParams params, const Stored* x,
                     const Stored* w, Stored* y,
                     const __grid_constant__ Epilogue<Stored> epilogue) {
  Planes<Stored, groups, chunk, stride> block(params, x, w);
  block.run();
  block.write(y, epilogue);
}

}  // namespace plumb::cuda::depthwise
