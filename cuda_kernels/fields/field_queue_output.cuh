// What leaves the queue: in vectors from registers where rows allow it, otherwise through a little
// shared memory of the warp, so that it still writes side by side.
#pragma once

#include "cuda_kernels/fields/field_queue_shape.cuh"
#include "cuda_kernels/fields/field_store.cuh"

namespace plumb::cuda::fields {

template <class Scalar, class Shape>
class QueueWriter {
  static constexpr int vector = vector_elements<Scalar>, vectors = Shape::vectors;
  static constexpr int columns = Shape::template columns<Scalar>;

 public:
  __device__ QueueWriter(const FieldParams& params, const FieldBlock<Scalar>& block, Scalar* y,
                         const QueueThread<Shape, Scalar>& thread,
                         const Scalar (&bias)[Shape::filters],
                         const FieldEpilogue<Scalar>& epilogue)
      : params_(params), block_(block), epilogue_(epilogue), bias_(bias) {
    // The last row of the warp's last thread says whether all of its rows are inside.
    const int last = static_cast<int>(threadIdx.x) | 31;
    const int last_v = ((last >> params.threads_w_bits) + 1) * Shape::rows;
    plain_ = !epilogue.relu && !epilogue.accumulate;
    whole_ = params.y_vectors && block.count_w == params.tile_w && last_v <= block.count_v;
    to_ = y + block.y_at;
    if (whole_) to_ += thread.v * params.view.v.y_step + thread.w;
  }

  /// Writes the plane of the tile that is at the end of the queue, and goes on to the next.
  __device__ void write(const Scalar (&sums)[Shape::filters][Shape::taps][Shape::rows][columns]) {
    const FieldView& view = params_.view;
    if (whole_) {
      Scalar* filter = to_;
#pragma unroll
      for (int k = 0; k < Shape::filters; ++k, filter += view.y_k) {
        if (Shape::filters > 1 && block_.k + k >= view.k) break;
        Scalar* row = filter;
#pragma unroll
        for (int j = 0; j < Shape::rows; ++j, row += view.v.y_step)
          write_vectors(sums[k][Shape::taps - 1][j], bias_[k], row);
      }
    } else {
#pragma unroll
      for (int k = 0; k < Shape::filters; ++k) {
        if (Shape::filters > 1 && block_.k + k >= view.k) break;
#pragma unroll
        for (int j = 0; j < Shape::rows; ++j)
          write_elements(sums[k][Shape::taps - 1][j], bias_[k], to_ + k * view.y_k, j);
      }
    }
    to_ += view.u.y_step;
  }

 private:
  __device__ void write_vectors(const Scalar (&sums)[columns], Scalar bias, Scalar* to) const {
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      Vector<Scalar> packed;
#pragma unroll
      for (int j = 0; j < vector; ++j) packed.of[j] = sums[i * vector + j] + bias;
      if (!plain_) [[unlikely]] {
        Vector<Scalar> old{};
        if (epilogue_.accumulate)
          old = reinterpret_cast<const Vector<Scalar>*>(to)[i << params_.threads_w_bits];
#pragma unroll
        for (int j = 0; j < vector; ++j)
          packed.of[j] = finished(packed.of[j], Scalar{0}, epilogue_, &old.of[j]);
      }
      reinterpret_cast<Vector<Scalar>*>(to)[i << params_.threads_w_bits] = packed;
    }
  }

  /// Row `j` of each thread of the warp; `plane` is where the block's outputs begin.
  __device__ void write_elements(const Scalar (&sums)[columns], Scalar bias, Scalar* plane,
                                 int j) const {
    const int thread = static_cast<int>(threadIdx.x), bits = params_.threads_w_bits;
    char* const own =
        dynamic_shared() + params_.scratch_at + thread / 32 * fields::scratch_bytes(vectors);
    const int row = thread % 32 >> bits, in_row = thread & ((1 << bits) - 1);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      Vector<Scalar> packed;
#pragma unroll
      for (int l = 0; l < vector; ++l) packed.of[l] = sums[i * vector + l] + bias;
      reinterpret_cast<Vector<Scalar>*>(own)[(row * vectors + i << bits) + in_row] = packed;
    }
    __syncwarp();
    write_scratch(params_, block_, epilogue_, reinterpret_cast<const Scalar*>(own), plane, j);
  }

  /// Writes what a warp has put into its scratch memory, side by side.
  __device__ static void write_scratch(const FieldParams& params, const FieldBlock<Scalar>& block,
                                       const FieldEpilogue<Scalar>& epilogue, const Scalar* own,
                                       Scalar* plane, int j) {
    const int thread = static_cast<int>(threadIdx.x);
    const int row_columns = columns << params.threads_w_bits;
    const int first = (thread & ~31) >> params.threads_w_bits;  // row of threads
#pragma unroll 1
    for (int at = thread & 31; at < 32 * columns; at += 32) {
      const int index = at / columns >> params.threads_w_bits;
      const int v = (first + index) * Shape::rows + j, column = at - index * row_columns;
      if (v >= block.count_v || column >= block.count_w) continue;
      Scalar* const to = plane + (v * params.view.v.y_step + column * params.view.w.y_step);
      *to = finished(own[at], Scalar{0}, epilogue, to);
    }
  }

  const FieldParams& params_;
  const FieldBlock<Scalar>& block_;
  const FieldEpilogue<Scalar>& epilogue_;
  const Scalar (&bias_)[Shape::filters];  ///< none is -0, so that no sum with it is
  Scalar* to_;  ///< the plane's outputs: the thread's own where they are whole, or the block's
  bool whole_;  ///< whether the warp's outputs are all there, and in whole vectors
  bool plain_;  ///< whether sums are written as they are
};

}  // namespace plumb::cuda::fields
