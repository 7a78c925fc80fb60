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

/// Loads the planes of a block in their order, channel by channel, those in a padding of zeros as
/// zeros. What a plane costs a thread besides its copies is a few instructions: addresses move on
/// by additions, and boundaries are looked at where the planes reach one.
template <class Scalar, class Shape>
class QueueLoader {
 public:
  __device__ QueueLoader(const FieldParams& params, const FieldBlock<Scalar>& block)
      : params_(params), block_(block) {
    const FieldView& view = params.view;
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    for (int row = thread; row < params.rows.value(); row += threads) {
      const std::int64_t v = mapped(block.first_v + row, view.v);
      lines()[row] = v < 0 ? no_line : v * view.v.x_step;
    }
    if (how_in_image() >= How::part)
      for (int at = thread; at < params.columns; at += threads) {
        const std::int64_t w = mapped(block.first_w + at, view.w);
        columns()[at] = w < 0 ? no_column : static_cast<int>(w * view.w.x_step);
      }
    find_plane();
    __syncthreads();
  }

  /// Begins to load the next of `planes` planes, of a channel, if there is one. Every thread ends a
  /// group of copies, were it an empty one.
  __device__ void load_next(int planes) {
    if (plane_ < planes) {
      load();
      if (++c_ < params_.view.c) {
        from_ += params_.view.x_c;
      } else {
        c_ = 0, ++plane_;
        if (--in_order_ > 0)
          from_ += params_.view.u.x_step - (params_.view.c - 1) * params_.view.x_c;
        else
          find_plane();
      }
    }
    const bool last = at_ + params_.stage_bytes == stages * params_.stage_bytes;
    at_ = last ? 0 : at_ + params_.stage_bytes;
    commit_copies();
  }

  /// The stage that is loaded next, in bytes. After load_next() it is the oldest, as the ring is
  /// full.
  __device__ int stage() const { return at_; }

 private:
  /// How a plane is loaded: all lies in the image and is copied 16, 8 or 4 bytes at a time (doubles
  /// by 8 at least), or a part does, or none; or a table says where each column comes from, if any.
  enum class How : std::uint8_t { run_16, run_8, run_4, part, zeros, table, table_zeros };
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

  __device__ How how_in_image() const {
    const FieldView& view = params_.view;
    // The columns that are loaded, in whole copies.
    const int of_copy = params_.copy_bytes / element;
    const int loaded = (params_.columns + of_copy - 1) / of_copy * of_copy;
    const bool inside = block_.begin == 0 && block_.end >= loaded;
    const bool rows_inside =
        block_.first_v >= 0 && block_.first_v + params_.rows.value() <= view.v.extent;
    if (view.w.x_step != 1 || 1 << params_.threads_w_bits != warp) return How::table;
    if (inside && rows_inside)
      return params_.copy_bytes == 16  ? How::run_16
             : params_.copy_bytes == 8 ? How::run_8
                                       : How::run_4;
    return columns_outside() <= warp ? How::part : How::table;
  }
  __device__ int columns_outside() const {
    return min(block_.begin, params_.columns) + max(params_.columns - block_.end, 0);
  }

  /// Finds where plane number `plane_` comes from, and how many follow on it in the image.
  __device__ void find_plane() {
    const FieldAxis& u = params_.view.u;
    const std::int64_t at = block_.first_u + plane_, from = mapped(at, u);
    in_order_ =
        at >= 0 && at < u.extent ? static_cast<int>(min(u.extent - at, std::int64_t{INT_MAX})) : 1;
    how_ = how_in_image();
    if (from < 0) how_ = how_ == How::table ? How::table_zeros : How::zeros;
    const int first = static_cast<int>(threadIdx.x) / warp,
              lane = static_cast<int>(threadIdx.x) % warp;
    const bool run = how_ <= How::run_4;
    const int lane_at = run ? lane * (params_.copy_bytes / element) : lane;
    to_ = (first * params_.pitch + place_of(lane_at)) * element;
    from_ = block_.x + max(from, std::int64_t{0}) * u.x_step;
    if (run) from_ += (block_.first_v + first) * params_.view.v.x_step + block_.first_w + lane_at;
  }

  __device__ void load() const {
    if (how_ == How::run_16)
      load_run<16>();
    else if (how_ == How::run_8)
      load_run<8>();
    else if (how_ == How::run_4)
      load_run<element>();
    else if (how_ >= How::table)
      load_by_table();
    else
      load_part();
  }

  /// A warp's rows, all inside of the image: as many copies of all lanes as there are outputs, and
  /// one of what the taps meet more.
  template <int bytes>
  __device__ void load_run() const {
    constexpr int count = bytes / element, step = warp * count;
    constexpr int whole = Shape::template columns<Scalar> / count;
    static_assert(whole > 0);
    const int warps = static_cast<int>(blockDim.x) / warp;
    const bool last = static_cast<int>(threadIdx.x) % warp < (Shape::taps - 1 + count - 1) / count;
    const Scalar* from = from_;
    int to = at_ + to_;
    for (int row = params_.rows.value() - static_cast<int>(threadIdx.x) / warp; row > 0;) {
      auto* const line = reinterpret_cast<Scalar*>(dynamic_shared() + to);
#pragma unroll
      for (int i = 0; i < whole; ++i) copy<bytes>(line + i * place_of(step), from + i * step);
      if (last) copy<bytes>(line + whole * place_of(step), from + whole * step);
      if ((row -= warps) <= 0) break;
      to += warps * params_.pitch * element, from += warps * params_.view.v.x_step;
    }
  }
  template <int bytes>
  __device__ static void copy(Scalar* to, const Scalar* from) {
    if constexpr (bytes == 16)
      copy_16_bytes_async(to, from);
    else
      copy_bytes_async<bytes>(to, from, true);
  }

  /// Rows of which a part may lie beyond the border: what lies in the image by elements, zeros
  /// where there is none, and what another boundary has there by one copy more.
  __device__ void load_part() const {
    constexpr int whole = Shape::template columns<Scalar>;
    const int warps = static_cast<int>(blockDim.x) / warp,
              lane = static_cast<int>(threadIdx.x) % warp;
    const auto first = static_cast<unsigned>(lane - block_.begin);
    const auto count = static_cast<unsigned>(block_.end - block_.begin);
    const bool last = lane < Shape::taps - 1, zeros = params_.view.w.boundary == Boundary::zeros;
    const int beyond = lane < block_.begin ? lane : block_.end + (lane - block_.begin);
    const bool goes_beyond = !zeros && lane < columns_outside();
    auto* to = reinterpret_cast<Scalar*>(dynamic_shared() + at_ + to_);
    for (int row = static_cast<int>(threadIdx.x) / warp; row < params_.rows.value();
         row += warps, to += warps * params_.pitch) {
      const std::int64_t offset = lines()[row];
      const bool there = offset != no_line && how_ != How::zeros;
      const Scalar* const line = from_ + (there ? offset : 0);
      const Scalar* const from = line + (block_.first_w + lane);
#pragma unroll
      for (int i = 0; i <= whole; ++i) {
        const bool inside = first + i * warp < count;
        if ((i < whole || last) && (inside || zeros || !there))
          copy_bytes_async<element>(to + i * place_of(warp), from + i * warp, there && inside);
      }
      if (goes_beyond && there)
        copy_bytes_async<element>(to + (place_of(beyond) - place_of(lane)),
                                  line + columns()[beyond], true);
    }
  }

  /// Rows of images of any strides, or that reach far beyond the border.
  __device__ void load_by_table() const {
    const int warps = static_cast<int>(blockDim.x) / warp;
    auto* to = reinterpret_cast<Scalar*>(dynamic_shared() + at_ + to_);
    for (int row = static_cast<int>(threadIdx.x) / warp; row < params_.rows.value();
         row += warps, to += warps * params_.pitch) {
      const std::int64_t offset = lines()[row];
      Scalar* element_to = to;
#pragma unroll 4
      for (int i = static_cast<int>(threadIdx.x) % warp; i < params_.columns;
           i += warp, element_to += place_of(warp)) {
        const int column = offset == no_line || how_ == How::table_zeros ? no_column : columns()[i];
        copy_bytes_async<element>(element_to, from_ + (column == no_column ? 0 : offset + column),
                                  column != no_column);
      }
    }
  }

  const FieldParams& params_;
  const FieldBlock<Scalar>& block_;
  const Scalar* from_;     ///< the thread's first element of the next plane of a channel
  int to_;                 ///< where it goes in a stage, in bytes
  int plane_ = 0, c_ = 0;  ///< what comes next
  int in_order_;           ///< planes from it on that follow on each other
  int at_ = 0;             ///< its stage, in bytes
  How how_;
};

}  // namespace plumb::cuda::fields
