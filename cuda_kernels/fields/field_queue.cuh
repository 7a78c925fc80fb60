// The queue: planes stream through a ring of shared memory, and each is summed at once to all
// outputs that it is a part of.
//
// A thread has `vectors` vectors of outputs in a row, in `rows` rows and for `filters` filters,
// and of each the sums of `taps` planes of outputs. The sum that a plane's last tap along u
// completes leaves the queue, and one begins: the first tap adds to the sum one place before, so
// that moving takes no instruction.
#pragma once

#include "cuda_kernels/fields/field_queue_boxes.cuh"
#include "cuda_kernels/fields/field_queue_input.cuh"
#include "cuda_kernels/fields/field_queue_output.cuh"

namespace plumb::cuda::fields {

/// The sums of a thread. Filters have `taps` taps along u, and in a row of theirs lie in
/// shared memory by tap along w, filter, tap along u.
template <class Scalar, class Shape>
class QueueSums {
 public:
  static constexpr int columns = Shape::template columns<Scalar>;
  Scalar of[Shape::filters][Shape::taps][Shape::rows][columns];

  __device__ QueueSums() {
#pragma unroll
    for (int k = 0; k < Shape::filters; ++k)
#pragma unroll
      for (int t = 0; t < Shape::taps; ++t)
#pragma unroll
        for (int j = 0; j < Shape::rows; ++j)
#pragma unroll
          for (int i = 0; i < columns; ++i) of[k][t][j][i] = 0;
  }

  /// Adds a plane of a channel: `rows` rows of filters. The queue moves where the plane `comes`.
  template <bool comes>
  __device__ void add(QueueSegment<Scalar, Shape> segment, const char* weights, int rows) {
    add_row<comes>(segment, weights);
#pragma unroll 1
    for (int r = 1; r < rows; ++r) {
      weights += filter_row * sizeof(Scalar), segment.next_row();
      add_row<false>(segment, weights);
    }
  }

  /// Adds a plane whose filter of `kept_rows` rows is in registers, so that each row of the input
  /// is read once. The queue moves.
  template <int count>
  __device__ void add_once(const QueueSegment<Scalar, Shape>& segment,
                           const Scalar (&weights)[count]) {
#pragma unroll
    for (int row = 0; row < Shape::rows + Shape::kept_rows - 1; ++row) {
      typename QueueSegment<Scalar, Shape>::Row x;
      segment.read(row, x);
#pragma unroll
      for (int r = 0; r < Shape::kept_rows; ++r)
        if (row - r >= 0 && row - r < Shape::rows)
#pragma unroll
          for (int s = 0; s < Shape::taps_w; ++s)
#pragma unroll
            for (int t = Shape::taps - 1; t >= 0; --t)
              add_tap(r == 0 && s == 0, 0, t, row - r, x, s,
                      weights[(r * Shape::taps_w + s) * Shape::taps + t]);
    }
  }

  /// Elements of a row of the filters in shared memory.
  static constexpr int filter_row =
      in_vectors<Scalar>(Shape::taps_w * Shape::filters * Shape::taps);

 private:
  __device__ Scalar before(int k, int t, int j, int i) const {
    return t > 0 ? of[k][t - 1][j][i] : Scalar{0};
  }

  template <bool comes>
  __device__ void add_row(const QueueSegment<Scalar, Shape>& segment, const char* from) {
    constexpr int vector = vector_elements<Scalar>, of_tap = Shape::filters * Shape::taps;
    typename QueueSegment<Scalar, Shape>::Row x[Shape::rows];
    Scalar weights[filter_row];
#pragma unroll
    for (int j = 0; j < Shape::rows; ++j) segment.read(j, x[j]);
#pragma unroll
    for (int s = 0; s < Shape::taps_w; ++s) {
      // What the tap needs of the weights that has not been read.
#pragma unroll
      for (int i = (s * of_tap + vector - 1) / vector; i * vector < (s + 1) * of_tap; ++i)
        read_vector(from + i * vector_bytes, i, weights);
#pragma unroll
      for (int k = 0; k < Shape::filters; ++k)
#pragma unroll
        for (int t = Shape::taps - 1; t >= 0; --t)
#pragma unroll
          for (int j = 0; j < Shape::rows; ++j)
            add_tap(comes && s == 0, k, t, j, x[j], s, weights[s * of_tap + k * Shape::taps + t]);
    }
  }

  __device__ void add_tap(bool comes, int k, int t, int j,
                          const typename QueueSegment<Scalar, Shape>::Row& x, int s,
                          Scalar weight) {
    constexpr int vector = vector_elements<Scalar>, lead = Shape::template lead<Scalar>;
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      of[k][t][j][i] = fma(x[i / vector][lead + i % vector + s], weight,
                           comes ? before(k, t, j, i) : of[k][t][j][i]);
      // Has the sums move before those that take their place, which costs no copies.
      if (comes) pin(of[k][t][j][i]);
    }
  }
};

/// A block at work, whose planes a `Loader` loads.
template <class Scalar, class Shape, class Loader>
class Queue {
 public:
  __device__ Queue(const FieldParams& params, const FieldBlock<Scalar>& block, Loader& loader)
      : params_(params), block_(block), loader_(loader), thread_(params) {}

  __device__ void run(Scalar* y, const Scalar (&bias)[Shape::filters],
                      const FieldEpilogue<Scalar>& epilogue) {
    const FieldView& view = params_.view;
    const int planes = block_.count_u + Shape::taps - 1;
    loader_.start(planes);
    QueueWriter<Scalar, Shape> writer(params_, block_, y, thread_, bias, epilogue);
    Sums sums;
    const char* const filters = dynamic_shared() + params_.filters_at;
    Scalar weights[kept > 0 ? kept : 1];
#pragma unroll
    for (int i = 0; i < kept; ++i)
      weights[i] =
          reinterpret_cast<const Scalar*>(filters)[i / of_row * Sums::filter_row + i % of_row];
    QueueSegment<Scalar, Shape> segment(params_, thread_);
    // No plane takes another way than the next: threads without outputs sum what lies in the ring,
    // and planes of a padding are zeros. Registers would be copied wherever two ways meet.
#pragma unroll 1
    for (int plane = 0; plane < planes; ++plane) {
      int stage = loader_.next(), left = params_.channels;  // channels of the stage
      segment.begin(stage);
      if constexpr (kept > 0)
        sums.add_once(segment, weights);
      else
        sums.template add<true>(segment, filters, view.v.taps);
      if constexpr (kept == 0)
#pragma unroll 1
        for (int c = 1; c < view.c; ++c) {
          stage += params_.channel_bytes;
          if (!Shape::boxes || --left == 0) {
            loader_.release();
            stage = loader_.next(), left = params_.channels;
          }
          segment.begin(stage);
          sums.template add<false>(segment, filters + c * params_.filter_bytes, view.v.taps);
        }
      loader_.release();
      if (plane >= Shape::taps - 1) writer.write(sums.of);
    }
  }

 private:
  using Sums = QueueSums<Scalar, Shape>;
  static constexpr int of_row = Shape::taps * Shape::taps_w, kept = Shape::kept_rows * of_row;

  const FieldParams& params_;
  const FieldBlock<Scalar>& block_;
  Loader& loader_;
  const QueueThread<Shape, Scalar> thread_;
};

/// Copies the block's filters to shared memory, a channel after the other.
template <class Scalar, class Shape>
__device__ void load_queue_filters(const FieldParams& params, const Scalar* w, int k) {
  const FieldView& view = params.view;
  for (int c = 0; c < view.c; ++c)
    for (int i = 0; i < min(Shape::filters, view.k - k); ++i)
      load_filter(
          view, w, k + i, c,
          reinterpret_cast<Scalar*>(dynamic_shared() + params.filters_at + c * params.filter_bytes),
          [&](int t, int r, int s) {
            return r * QueueSums<Scalar, Shape>::filter_row +
                   (s * Shape::filters + i) * Shape::taps + t;
          });
}

/// Where the shape has boxes the copy engine loads by `map`; otherwise that is not looked at.
template <class Scalar, class Shape>
__global__ void __launch_bounds__(queue_residence(Shape::cut).threads,
                                  queue_residence(Shape::cut).blocks)
    queue_fields(const __grid_constant__ FieldParams params,
                 const __grid_constant__ CUtensorMap map, const Scalar* x, const Scalar* w,
                 Scalar* y, const __grid_constant__ FieldEpilogue<Scalar> epilogue) {
  __shared__ FieldBlock<Scalar> block;
  if (!begin_block(params, x, w, y, epilogue, block)) return;
  const int k = block.k;
  load_queue_filters<Scalar, Shape>(params, w, k);
  __shared__ Scalar bias[Shape::filters];  // in registers it would take them from the sums
  if (const int i = static_cast<int>(threadIdx.x); i < Shape::filters)
    bias[i] = epilogue.bias && k + i < params.view.k ? epilogue.bias[k + i] + Scalar{0} : Scalar{0};
  const auto run = [&](auto& loader) {
    __syncthreads();
    Queue<Scalar, Shape, std::remove_reference_t<decltype(loader)>>(params, block, loader)
        .run(y, bias, epilogue);
  };
  if constexpr (Shape::boxes) {
    __shared__ QueueBarriers barriers;
    QueueBoxes<Scalar, Shape> loader(params, block, map, barriers);
    run(loader);
  } else {
    QueueCopies<Scalar, Shape> loader(params, block);
    run(loader);
  }
}

}  // namespace plumb::cuda::fields
