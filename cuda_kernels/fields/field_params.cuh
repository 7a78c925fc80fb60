// The parameters of the field kernels, and where vectors lie in shared memory.
#pragma once

#include <cstdint>

#include "cuda_kernels/fields/fields.hpp"
#include "cuda_kernels/primitives/index.cuh"

namespace plumb::cuda::fields {

inline constexpr int vector_bytes = 16, stages = 4;
template <class Scalar>
inline constexpr int vector_elements = vector_bytes / static_cast<int>(sizeof(Scalar));

/// A thread has two vectors of outputs side by side. Lanes then read every other vector, and
/// would meet each other's banks if there were not a vector of room behind every eight.
__host__ __device__ constexpr int place(int vector) { return vector + (vector >> 3); }

template <class Scalar>
__host__ __device__ constexpr int place_element(int element) {
  return element + element / (8 * vector_elements<Scalar>)*vector_elements<Scalar>;
}

/// Returns so many elements in whole vectors.
template <class Scalar>
__host__ __device__ constexpr int in_vectors(int elements) {
  constexpr int vector = vector_elements<Scalar>;
  return (elements + vector - 1) / vector * vector;
}

struct FieldParams {
  FieldView view;
  Divisor<int> k, tiles_w, tiles_v, tiles_u, rows, row_vectors;
  int threads_w_bits, threads_v_bits, row_bits;  ///< logarithms
  int tile_u, tile_v, tile_w;
  int planes, columns, front;
  int filters;        ///< of a block
  int channels;       ///< that are loaded together
  int pairs;          ///< k8 tiles that a row of the Toeplitz matrix has
  bool lines_in_row;  ///< whether its lines follow each other in a row
  int pitch;          ///< elements from row to row
  int shift;          ///< outputs by which the first tile begins before the first column
  bool x_vectors, y_vectors;
  bool has_columns;             ///< whether there is a table of the columns
  int copy_bytes;               ///< of the queue's copies, where all columns lie in the image
  int part_bytes, stage_bytes;  ///< of the queue: of a stage what is for one vector of each thread
  int channel_bytes;            ///< of what is loaded together: of one channel
  int filter_bytes;             ///< of queue and line: a channel's filters
  int filters_at, scratch_at, lines_at, columns_at;  ///< bytes in shared memory
  int patches_at;                                    ///< in the place of the tables before
};

/// Returns a number of things, between none and `most`.
__device__ inline int clipped(std::int64_t count, int most) {
  return count < 0 ? 0 : count > most ? most : static_cast<int>(count);
}

template <class Scalar>
struct FieldEpilogue {
  const Scalar* bias;
  bool relu, accumulate;
};

/// What the threads of a block share, in shared memory, since the sums want all registers: which
/// outputs are the block's, and the input under them.
template <class Scalar>
struct FieldBlock {
  std::int64_t u, v, w;           ///< the first output
  int count_u, count_v, count_w;  ///< how many there are from it on
  int k;
  std::int64_t first_u, first_v, first_w;  ///< the input's first element in the tile
  int begin, end;                          ///< the columns of the tile that lie in the image
  int image;
  const Scalar* x;    ///< the image
  std::int64_t x_at;  ///< its offset in the tensor
  Scalar* y;          ///< the first output
  std::int64_t y_at;  ///< its offset in the tensor
  Scalar bias;

  /// Finds what is in tile number `index`. Is called by one thread.
  __device__ void find(const FieldParams& params, int index, const Scalar* images, Scalar* results,
                       const FieldEpilogue<Scalar>& epilogue) {
    const FieldView& view = params.view;
    const auto [tile, filter] = params.k.divide(index);
    const auto [above_w, tile_w] = params.tiles_w.divide(tile);
    const auto [above_v, tile_v] = params.tiles_v.divide(above_w);
    const auto [of_image, tile_u] = params.tiles_u.divide(above_v);
    k = filter * params.filters;
    u = std::int64_t{tile_u} * params.tile_u;
    v = std::int64_t{tile_v} * params.tile_v;
    w = std::int64_t{tile_w} * params.tile_w - params.shift;
    count_u = clipped(view.u.outputs - u, params.tile_u);
    count_v = clipped(view.v.outputs - v, params.tile_v);
    count_w = clipped(view.w.outputs - w, params.tile_w);
    first_u = u - view.u.before;
    first_v = v - view.v.before;
    first_w = w - view.w.before - params.front;
    const int columns = params.row_vectors.value() * vector_elements<Scalar>;
    begin = clipped(-first_w, columns), end = clipped(view.w.extent - first_w, columns);
    image = of_image;
    x_at = image * view.x_n;
    x = images + x_at;
    y_at =
        image * view.y_n + k * view.y_k + u * view.u.y_step + v * view.v.y_step + w * view.w.y_step;
    y = results + y_at;
    bias = epilogue.bias ? epilogue.bias[k] + Scalar{0} : Scalar{0};  // no sum with it is -0
  }
};

/// Where a thread's outputs lie in its block's tile, in units of what a thread has.
struct FieldThread {
  int u, v, w;

  __device__ FieldThread(const FieldParams& params, int thread) {
    w = thread & ((1 << params.threads_w_bits) - 1);
    const int row = thread >> params.threads_w_bits;
    v = row & ((1 << params.threads_v_bits) - 1);
    u = row >> params.threads_v_bits;
  }
};

}  // namespace plumb::cuda::fields
