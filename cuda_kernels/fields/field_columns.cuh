// Small filters: threads go along u, and read the input as it lies, through L1.
//
// A thread has a few outputs of each plane: rows below each other where the filter has taps along
// v, otherwise columns that are a warp apart. Lanes are neighbouring columns, so that every read of
// a warp is a run of a row, however rows are aligned. Of the sums of each plane's outputs, one for
// each tap along u is in registers: every element is read from memory once, and each tap along w
// reads it once more from L1.
#pragma once

#include "cuda_kernels/fields/field_store.cuh"
#include "cuda_kernels/fields/field_sums.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::fields {

/// How the columns' weights lie in shared memory: those of a channel and a tap along w together.
template <class Scalar, int taps_u, int taps_v>
inline constexpr int column_weights = march_row<Scalar>(taps_u* taps_v);

template <class Scalar, int taps_u, int taps_v, int outputs>
class Columns {
 public:
  static constexpr bool by_rows = taps_v > 1;
  static constexpr int inputs = by_rows ? outputs + taps_v - 1 : outputs;

  __device__ Columns(const FieldParams& params, const FieldBlock<Scalar>& block)
      : view_(params.view), block_(block) {
    const int lane = static_cast<int>(threadIdx.x) & 31, warp = static_cast<int>(threadIdx.x) >> 5;
    const int warps_w = 1 << (params.threads_w_bits - 5);
    const int warp_w = warp & (warps_w - 1), warp_v = warp >> (params.threads_w_bits - 5);
    w_ = warp_w * (by_rows ? 32 : 32 * outputs) + lane;
    v_ = warp_v * (by_rows ? outputs : 1);
    find_rows();
    const std::int64_t left = block.first_w + w_ - lane;
    const int columns = (by_rows ? 32 : 32 * outputs) + view_.w.taps - 1;
    inside_ = inside_ && left >= 0 && left + columns <= view_.w.extent;
  }

  /// Goes along the block's planes. Weights are in shared memory.
  __device__ void run(const Scalar* weights, const FieldEpilogue<Scalar>& epilogue) {
    const int planes = block_.count_u + taps_u - 1;
    for (int plane = 0; plane < planes; ++plane) {
      const std::int64_t u = mapped(block_.first_u + plane, view_.u);
      prefetch(plane + prefetch_distance);
      if (u < 0)
        move();
      else if (inside_)
        add_plane<true>(block_.x + u * view_.u.x_step, weights);
      else
        add_plane<false>(block_.x + u * view_.u.x_step, weights);
      if (plane >= taps_u - 1) write(plane - taps_u + 1, epilogue);
    }
  }

 private:
  static constexpr int none = INT_MIN, prefetch_distance = 4;

  /// Finds where the rows of the input begin in a plane.
  __device__ void find_rows() {
    inside_ = true;
#pragma unroll
    for (int i = 0; i < (by_rows ? inputs : 1); ++i) {
      const std::int64_t row = mapped(block_.first_v + v_ + i, view_.v);
      row_[i] = row < 0 ? none : static_cast<int>(row * view_.v.x_step);
      inside_ = inside_ && row >= 0;
    }
  }

  __device__ int column(std::int64_t at) const {
    const std::int64_t w = mapped(at, view_.w);
    return w < 0 ? none : static_cast<int>(w * view_.w.x_step);
  }

  /// Reads what tap s meets.
  template <bool inside>
  __device__ void read(const Scalar* plane, int s, Scalar (&x)[inputs]) const {
    const std::int64_t first = block_.first_w + w_ + s;
    if constexpr (inside) {
      const int at = static_cast<int>(first) * static_cast<int>(view_.w.x_step);
#pragma unroll
      for (int i = 0; i < inputs; ++i)
        x[i] = by_rows ? plane[row_[i] + at]
                       : plane[row_[0] + at + 32 * i * static_cast<int>(view_.w.x_step)];
    } else {
      int at = column(first);
#pragma unroll
      for (int i = 0; i < inputs; ++i) {
        if (!by_rows && i > 0) at = column(first + 32 * i);
        const int row = row_[by_rows ? i : 0];
        x[i] = row != none && at != none ? plane[row + at] : Scalar{0};
      }
    }
  }

  /// Adds a plane: what was the sum of tap t is then that of tap t + 1.
  template <bool inside>
  __device__ void add_plane(const Scalar* plane, const Scalar* weights) {
    constexpr int step = column_weights<Scalar, taps_u, taps_v>;
    add_tap<inside, true>(plane, 0, weights);
    weights += step;
    for (int c = 0; c < view_.c; ++c, plane += view_.x_c)
#pragma unroll 1
      for (int s = c == 0 ? 1 : 0; s < view_.w.taps; ++s, weights += step)
        add_tap<inside, false>(plane, s, weights);
  }

  template <bool inside, bool is_first>
  __device__ void add_tap(const Scalar* plane, int s, const Scalar* from) {
    Scalar x[inputs], weights[column_weights<Scalar, taps_u, taps_v>];
    read<inside>(plane, s, x);
    read_vectors(reinterpret_cast<const char*>(from), weights);
#pragma unroll
    for (int t = taps_u - 1; t >= 0; --t)
#pragma unroll
      for (int r = 0; r < taps_v; ++r)
#pragma unroll
        for (int i = 0; i < outputs; ++i) {
          const Scalar before = !is_first || r > 0 ? of_[t][i] : t > 0 ? of_[t - 1][i] : Scalar{0};
          of_[t][i] = fma(x[by_rows ? i + r : i], weights[t * taps_v + r], before);
        }
  }

  __device__ void move() {
#pragma unroll
    for (int t = taps_u - 1; t >= 0; --t)
#pragma unroll
      for (int i = 0; i < outputs; ++i) of_[t][i] = t > 0 ? of_[t - 1][i] : Scalar{0};
  }

  /// Has a plane's rows brought to L2 while those before it are summed.
  __device__ void prefetch(int plane) const {
    const std::int64_t u = block_.first_u + plane;
    if (!inside_ || u < 0 || u >= view_.u.extent || plane >= block_.count_u + taps_u - 1) return;
    if ((threadIdx.x & 31) != 0) return;
    const Scalar* const from = block_.x + u * view_.u.x_step + block_.first_w + w_;
#pragma unroll
    for (int i = 0; i < inputs; ++i)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(from + (by_rows ? row_[i] : row_[0] + 32 * i)));
  }

  __device__ void write(int u, const FieldEpilogue<Scalar>& epilogue) const {
    const std::int64_t step = by_rows ? view_.v.y_step : 32 * view_.w.y_step;
    Scalar* to = block_.y + (u * view_.u.y_step + v_ * view_.v.y_step + w_ * view_.w.y_step);
#pragma unroll
    for (int i = 0; i < outputs; ++i, to += step) {
      const bool is_output = by_rows ? w_ < block_.count_w && v_ + i < block_.count_v
                                     : w_ + 32 * i < block_.count_w && v_ < block_.count_v;
      if (is_output) *to = finished(of_[taps_u - 1][i], block_.bias, epilogue, to);
    }
  }

  const FieldView& view_;
  const FieldBlock<Scalar>& block_;
  int w_, v_;  ///< the thread's first output in the block
  bool inside_;
  int row_[by_rows ? inputs : 1];
  Scalar of_[taps_u][outputs] = {};
};

template <class Scalar, int taps_u>
inline constexpr int outputs_of = column_outputs(sizeof(Scalar), taps_u);
template <class Scalar, int taps_u>
inline constexpr FieldResidence columns_of = column_residence(sizeof(Scalar), taps_u);

template <class Scalar, int taps_u, int taps_v>
__device__ void load_column_filters(const FieldView& view, const Scalar* w, int k, Scalar* to) {
  constexpr int step = column_weights<Scalar, taps_u, taps_v>;
  for (int c = 0; c < view.c; ++c, to += view.w.taps * step)
    load_filter(view, w, k, c, to, [&](int t, int r, int s) { return s * step + t * taps_v + r; });
}

template <class Scalar, int taps_u, int taps_v>
__global__ void __launch_bounds__(columns_of<Scalar, taps_u>.threads,
                                  columns_of<Scalar, taps_u>.blocks)
    column_fields(const __grid_constant__ FieldParams params, const Scalar* x, const Scalar* w,
                  Scalar* y, const __grid_constant__ FieldEpilogue<Scalar> epilogue) {
  __shared__ FieldBlock<Scalar> block;
  if (threadIdx.x == 0) block.find(params, x, y, epilogue);
  __syncthreads();
  if (zeros_meet_infinity(params.view, block, w)) {
    write_defined(params, block, w, epilogue);
    return;
  }
  auto* const weights = reinterpret_cast<Scalar*>(dynamic_shared());
  load_column_filters<Scalar, taps_u, taps_v>(params.view, w, block.k, weights);
  __syncthreads();
  Columns<Scalar, taps_u, taps_v, outputs_of<Scalar, taps_u>> columns(params, block);
  columns.run(weights, epilogue);
}

}  // namespace plumb::cuda::fields
