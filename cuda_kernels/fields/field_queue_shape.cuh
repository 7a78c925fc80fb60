// What a thread of the queue has, and where the input lies that its outputs meet.
//
// Thread i of a row has vector i of each part of the tile along w; a part is as wide as a row of
// threads has vectors. A stage has the parts of a plane one behind the other, each with the columns
// that the taps reach over, so that lanes read neighbouring vectors from different banks. Boxes
// have some columns more in front, where the copy engine must begin (queue_lead).
#pragma once

#include "cuda_kernels/fields/field_params.cuh"
#include "cuda_kernels/fields/field_sums.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/primitives/tiled_map.hpp"

namespace plumb::cuda::fields {

/// A cut of the queue (fields.hpp) as a type, and whether the copy engine loads its planes.
template <int taps_, int vectors_, int rows_, int filters_, int kept_rows_, int taps_w_,
          bool boxes_>
struct QueueShape {
  static constexpr int taps = taps_, vectors = vectors_, rows = rows_, filters = filters_;
  static constexpr int kept_rows = kept_rows_, taps_w = taps_w_;
  static constexpr bool boxes = boxes_;
  static constexpr QueueCut cut{taps, vectors, rows, filters, kept_rows, taps_w};
  template <class Scalar>
  static constexpr int columns = vectors* vector_elements<Scalar>;
  /// Columns of a row in shared memory before the first that a tap meets.
  template <class Scalar>
  static constexpr int lead = boxes ? queue_lead(taps_w, sizeof(Scalar)) : 0;
  /// Bytes from row to row in shared memory, which leave room for the lead of boxes.
  template <class Scalar>
  static constexpr int pitch_bytes = queue_pitch(taps_w, sizeof(Scalar)) * vector_bytes;
  static_assert(pitch_bytes<float> / sizeof(float) <= max_tiled_box);
};

/// Where a thread's first output lies in its block's tile.
template <class Shape, class Scalar>
struct QueueThread {
  int v, w;

  __device__ explicit QueueThread(const FieldParams& params) {
    const int thread = static_cast<int>(threadIdx.x);
    w = (thread & ((1 << params.threads_w_bits) - 1)) * vector_elements<Scalar>;
    v = (thread >> params.threads_w_bits) * Shape::rows;
  }
};

/// The rows of a plane in shared memory that a thread's outputs meet.
template <class Scalar, class Shape>
class QueueSegment {
  static constexpr int vector = vector_elements<Scalar>;

 public:
  static constexpr int lead = Shape::template lead<Scalar>;
  static constexpr int vectors = 1 + in_vectors<Scalar>(lead + Shape::taps_w - 1) / vector;
  static constexpr int elements = vectors * vector;  ///< of a part
  static_assert((31 + vectors) * vector_bytes <= Shape::template pitch_bytes<Scalar>);
  /// A row, by parts.
  using Row = Scalar[Shape::vectors][elements];

  __device__ QueueSegment(const FieldParams& params, const QueueThread<Shape, Scalar>& thread)
      : at_(thread.v * Shape::template pitch_bytes<Scalar> +
            thread.w * static_cast<int>(sizeof(Scalar))),
        part_bytes_(params.part_bytes) {}

  /// Goes to the first row in the stage that begins at so many bytes.
  __device__ void begin(int stage) { from_ = dynamic_shared() + (stage + at_); }
  __device__ void next_row() { from_ += Shape::template pitch_bytes<Scalar>; }
  __device__ void read(int row, Row& to) const {
#pragma unroll
    for (int part = 0; part < Shape::vectors; ++part) {
      const char* const from = from_ + part * part_bytes_;
#pragma unroll
      for (int i = 0; i < vectors; ++i)
        read_vector(from + (row * Shape::template pitch_bytes<Scalar> + i * vector_bytes), i,
                    to[part]);
    }
  }

 private:
  const char* from_ = nullptr;
  int at_, part_bytes_;
};

}  // namespace plumb::cuda::fields
