// How planes come to the queue's shared memory, a warp a row, and how threads read them there.
#pragma once

#include "cuda_kernels/fields/field_load.cuh"
#include "cuda_kernels/fields/field_sums.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::fields {

/// What a thread of a queue has: so many taps along u and w, vectors of outputs side by side, rows
/// and filters. With `once` the filter has as many taps along v, and is in registers.
template <int taps_, int vectors_, int rows_, int filters_, bool once_>
struct QueueShape {
  static constexpr int taps = taps_, vectors = vectors_, rows = rows_, filters = filters_;
  static constexpr bool once = once_;
  static constexpr QueueCut cut{taps, vectors, rows, filters, once};
  template <class Scalar>
  static constexpr int columns = vectors* vector_elements<Scalar>;
};

/// Where vectors lie in a row: with room behind every eight where a thread has two (place()).
template <bool roomy>
__host__ __device__ constexpr int queue_place(int vector) {
  return roomy ? place(vector) : vector;
}

/// Where a thread's first output lies in its block's tile.
template <class Shape, class Scalar>
struct QueueThread {
  int v, w;

  __device__ explicit QueueThread(const FieldParams& params) {
    const int thread = static_cast<int>(threadIdx.x);
    w = (thread & ((1 << params.threads_w_bits) - 1)) * Shape::template columns<Scalar>;
    v = (thread >> params.threads_w_bits) * Shape::rows;
  }
};

/// The rows of a plane in shared memory that a thread's outputs meet.
template <class Scalar, class Shape>
class QueueSegment {
  static constexpr int vector = vector_elements<Scalar>;
  static constexpr int vectors =
      (Shape::template columns<Scalar> + Shape::taps - 1 + vector - 1) / vector;
  static constexpr int pairs = (vectors + 1) / 2;

 public:
  static constexpr int elements = vectors * vector;

  __device__ QueueSegment(const FieldParams& params, const QueueThread<Shape, Scalar>& thread)
      : row_bytes_(params.pitch * static_cast<int>(sizeof(Scalar))) {
    // Two vectors that begin at an even one have no room between them.
    const int first = thread.w / vector;
#pragma unroll
    for (int i = 0; i < pairs; ++i)
      in_stage_[i] =
          thread.v * row_bytes_ + queue_place<(Shape::vectors > 1)>(first + 2 * i) * vector_bytes;
  }
  /// Goes to the stage that begins at so many bytes.
  __device__ void begin(int stage) { stage_ = dynamic_shared() + stage; }
  __device__ void read(int row, Scalar (&to)[elements]) const {
#pragma unroll
    for (int i = 0; i < vectors; ++i)
      read_vector(stage_ + in_stage_[i / 2] + (row * row_bytes_ + i % 2 * vector_bytes), i, to);
  }

 private:
  const char* stage_ = nullptr;
  int in_stage_[pairs];
  int row_bytes_;
};

/// Loads the planes of a block in their order, channel by channel.
template <class Scalar, class Shape>
class QueueLoader {
 public:
  __device__ QueueLoader(const FieldParams& params, const FieldBlock<Scalar>& block,
                         const Scalar* x)
      : params_(params),
        block_(block),
        x_(x + block.x_at),
        planes_(block.count_u + params.view.u.taps - 1) {
    const FieldView& view = params.view;
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    for (int row = thread; row < params.rows.value(); row += threads) {
      const std::int64_t v = mapped(block.first_v + row, view.v);
      lines()[row] = v < 0 ? no_line : v * view.v.x_step;
    }
    const bool inside = block.begin == 0 && block.end >= loaded(), dense = view.w.x_step == 1;
    const bool rows_inside =
        block.first_v >= 0 && block.first_v + params.rows.value() <= view.v.extent;
    how_ = inside && rows_inside && dense && 1 << params.threads_w_bits == warp ? How::run
           : dense && (inside || view.w.boundary == Boundary::zeros)            ? How::part
                                                                                : How::table;
    if (how_ == How::table)
      for (int at = thread; at < params.columns; at += threads) {
        const std::int64_t w = mapped(block.first_w + at, view.w);
        columns()[at] = w < 0 ? no_column : static_cast<int>(w * view.w.x_step);
      }
    __syncthreads();
  }

  /// Begins to load the next plane of a channel, if there is one. Every thread ends a group of
  /// copies, were it an empty one.
  __device__ void load_next() {
    if (plane_ < planes_) {
      if (plane_ >= block_.begin_plane && plane_ < block_.end_plane) load();
      if (++c_ == params_.view.c) c_ = 0, ++plane_;
      at_ =
          at_ + params_.stage_bytes == stages * params_.stage_bytes ? 0 : at_ + params_.stage_bytes;
    }
    commit_copies();
  }

 private:
  /// Whether all that is loaded lies in the image, or what does not is zeros along w, or a table
  /// says where each column comes from.
  enum class How : std::uint8_t { run, part, table };
  static constexpr int warp = 32, element = static_cast<int>(sizeof(Scalar));
  static constexpr std::int64_t no_line = INT64_MIN;
  static constexpr int no_column = INT_MIN;
  __device__ static constexpr int place_of(int at) {
    return Shape::vectors > 1 ? place_element<Scalar>(at) : at;
  }

  /// Offsets of the rows in a plane, and of the columns in a row.
  __device__ std::int64_t* lines() const {
    return reinterpret_cast<std::int64_t*>(dynamic_shared() + params_.lines_at);
  }
  __device__ int* columns() const {
    return reinterpret_cast<int*>(dynamic_shared() + params_.columns_at);
  }

  /// The columns that are loaded, in whole copies.
  __device__ int loaded() const {
    const int of_copy = params_.copy_bytes / element;
    return (params_.columns + of_copy - 1) / of_copy * of_copy;
  }

  __device__ void load() const {
    const FieldView& view = params_.view;
    const Scalar* const plane =
        x_ + (mapped(block_.first_u + plane_, view.u) * view.u.x_step + c_ * view.x_c);
    const int first = static_cast<int>(threadIdx.x) / warp,
              lane = static_cast<int>(threadIdx.x) % warp;
    auto* const to = reinterpret_cast<Scalar*>(dynamic_shared() + at_) + first * params_.pitch;
    if (how_ != How::run) return load_border(to, plane, first, lane);
    const Scalar* const from = plane + ((block_.first_v + first) * view.v.x_step + block_.first_w);
    if (params_.copy_bytes == 16)
      load_run<16>(to, from, first, lane);
    else if (params_.copy_bytes == 8)
      load_run<8>(to, from, first, lane);
    else
      load_run<element>(to, from, first, lane);
  }

  /// A warp's rows, all inside of the image: as many copies of all lanes as there are outputs, and
  /// one of what the taps meet more.
  template <int bytes>
  __device__ void load_run(Scalar* to, const Scalar* from, int row, int lane) const {
    constexpr int count = bytes / element, step = warp * count;
    constexpr int whole = Shape::template columns<Scalar> / count;
    static_assert(whole > 0);
    const int warps = static_cast<int>(blockDim.x) / warp, pitch = warps * params_.pitch;
    const std::int64_t step_v = warps * params_.view.v.x_step;
    const bool last = lane < (Shape::taps - 1 + count - 1) / count;
    to += place_of(lane * count), from += lane * count;
#pragma unroll 1
    for (; row < params_.rows.value(); row += warps, to += pitch, from += step_v) {
#pragma unroll
      for (int i = 0; i < whole; ++i) copy<bytes>(to + i * place_of(step), from + i * step);
      if (last) copy<bytes>(to + whole * place_of(step), from + whole * step);
    }
  }
  template <int bytes>
  __device__ static void copy(Scalar* to, const Scalar* from) {
    if constexpr (bytes == 16)
      copy_16_bytes_async(to, from);
    else
      copy_bytes_async<bytes>(to, from, true);
  }

  __device__ void load_border(Scalar* to, const Scalar* plane, int row, int lane) const {
    const int warps = static_cast<int>(blockDim.x) / warp;
    to += place_of(lane);
    for (; row < params_.rows.value(); row += warps, to += warps * params_.pitch) {
      const std::int64_t offset = lines()[row];
      if (offset == no_line)
        copy_part(to, x_, lane, 0, 0);
      else if (how_ == How::part)
        copy_part(to, plane + (offset + block_.first_w), lane, block_.begin, block_.end);
      else
        copy_by_table(to, plane + offset, lane);
    }
  }

  /// Copies the columns from `begin` up to `end`, and writes zeros for the others, which it does
  /// not read.
  __device__ void copy_part(Scalar* to, const Scalar* from, int lane, int begin, int end) const {
    from += lane;
    const auto first = static_cast<unsigned>(lane - begin);
    const auto count = static_cast<unsigned>(end - begin);
#pragma unroll 4
    for (int i = 0; i < params_.columns - lane; i += warp, to += place_of(warp), from += warp)
      copy_bytes_async<element>(to, from, first + i < count);
  }

  __device__ void copy_by_table(Scalar* to, const Scalar* from, int lane) const {
#pragma unroll 4
    for (int i = lane; i < params_.columns; i += warp, to += place_of(warp)) {
      const int column = columns()[i];
      copy_bytes_async<element>(to, from + (column == no_column ? 0 : column), column != no_column);
    }
  }

  const FieldParams& params_;
  const FieldBlock<Scalar>& block_;
  const Scalar* const x_;  ///< the image
  const int planes_;
  int plane_ = 0, c_ = 0;  ///< what comes next
  int at_ = 0;             ///< and its stage, in bytes
  How how_;
};

}  // namespace plumb::cuda::fields
