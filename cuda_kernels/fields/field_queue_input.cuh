// Planes come to the queue's shared memory by copies of all threads, a warp a row, where the copy
// engine can load no boxes (field_queue_boxes.cuh).
#pragma once

#include "cuda_kernels/fields/field_load.cuh"
#include "cuda_kernels/fields/field_queue_shape.cuh"

namespace plumb::cuda::fields {

/// Loads the planes of a block in their order, channel by channel, those in a padding of zeros as
/// zeros. What a plane costs a thread besides its copies is a few instructions: addresses move on
/// by additions, and boundaries are looked at where the planes reach one.
template <class Scalar, class Shape>
class QueueCopies {
 public:
  /// All threads call this; a barrier must follow.
  __device__ QueueCopies(const FieldParams& params, const FieldBlock<Scalar>& block)
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
  }

  /// Begins to load the first of `planes` planes.
  __device__ void start(int planes) {
    planes_ = planes;
    for (int i = 0; i < stages - 1; ++i) load_next();
  }

  /// Waits for the next plane of a channel and returns its stage, in bytes; begins to load another
  /// into the stage that is free.
  __device__ int next() {
    wait_for_copies<stages - 2>();
    __syncthreads();
    load_next();
    return at_;  // which is now the oldest, as the ring is full
  }
  /// Gives back the stage that next() has returned, which here its barrier does.
  __device__ void release() {}

 private:
  /// How a plane is loaded: all lies in the image and is copied 16, 8 or 4 bytes at a time (doubles
  /// by 8 at least), or a part does, or none; or a table says where each column comes from, if any.
  enum class How : std::uint8_t { run_16, run_8, run_4, part, zeros, table, table_zeros };
  static constexpr int warp = 32, element = static_cast<int>(sizeof(Scalar));
  static constexpr std::int64_t no_line = INT64_MIN;
  static constexpr int no_column = INT_MIN;
  static constexpr int vector = vector_elements<Scalar>;
  static constexpr int pitch_bytes = Shape::template pitch_bytes<Scalar>;

  __device__ int part_columns() const { return vector << params_.threads_w_bits; }

  /// Offsets of the rows in a plane, and of the columns in a row.
  __device__ std::int64_t* lines() const {
    return reinterpret_cast<std::int64_t*>(dynamic_shared() + params_.lines_at);
  }
  __device__ int* columns() const {
    return reinterpret_cast<int*>(dynamic_shared() + params_.columns_at);
  }

  /// Begins to load the next plane of a channel, if there is one. Every thread ends a group of
  /// copies, were it an empty one.
  __device__ void load_next() {
    if (plane_ < planes_) {
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
    to_ = first * pitch_bytes + lane_at * element;
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

  /// A warp's rows, all inside of the image: of each part as many copies of all lanes as there are
  /// outputs, and one of what the taps meet more.
  template <int bytes>
  __device__ void load_run() const {
    constexpr int count = bytes / element, step = warp * count, whole = vector / count;
    const int warps = static_cast<int>(blockDim.x) / warp;
    const bool last =
        static_cast<int>(threadIdx.x) % warp < (Shape::taps_w - 1 + count - 1) / count;
    const Scalar* from = from_;
    int to = at_ + to_;
    for (int row = params_.rows.value() - static_cast<int>(threadIdx.x) / warp; row > 0;) {
#pragma unroll
      for (int part = 0; part < Shape::vectors; ++part) {
        auto* const line =
            reinterpret_cast<Scalar*>(dynamic_shared() + to + part * params_.part_bytes);
        const Scalar* const line_from = from + part * warp * vector;
#pragma unroll
        for (int i = 0; i < whole; ++i) copy<bytes>(line + i * step, line_from + i * step);
        if (last) copy<bytes>(line + whole * step, line_from + whole * step);
      }
      if ((row -= warps) <= 0) break;
      to += warps * pitch_bytes, from += warps * params_.view.v.x_step;
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
    const int warps = static_cast<int>(blockDim.x) / warp,
              lane = static_cast<int>(threadIdx.x) % warp;
    const bool zeros = params_.view.w.boundary == Boundary::zeros;
    int to = at_ + to_;
    for (int row = static_cast<int>(threadIdx.x) / warp; row < params_.rows.value();
         row += warps, to += warps * pitch_bytes) {
      const std::int64_t offset = lines()[row];
      const bool there = offset != no_line && how_ != How::zeros;
      const Scalar* const line = from_ + (there ? offset : 0);
#pragma unroll
      for (int part = 0; part < Shape::vectors; ++part) {
        const int first = part * warp * vector;  // column of the tile
        auto* const line_to =
            reinterpret_cast<Scalar*>(dynamic_shared() + to + part * params_.part_bytes);
        const Scalar* const from = line + (block_.first_w + first + lane);
        const int begin = block_.begin - first, end = block_.end - first;
#pragma unroll
        for (int i = 0; i <= vector; ++i) {
          const int at = i * warp + lane;
          const bool inside = at >= begin && at < end;
          if ((i < vector || lane < Shape::taps_w - 1) && (inside || zeros || !there))
            copy_bytes_async<element>(line_to + i * warp, from + i * warp, there && inside);
        }
        if (!zeros && there) load_beyond(line_to, line, first, begin, end);
      }
    }
  }
  /// Copies what a part of a row has beyond the border, no more than an element a lane. Its first
  /// column is number `first` of the tile, and those from `begin` to `end` lie in the image.
  __device__ void load_beyond(Scalar* line_to, const Scalar* line, int first, int begin,
                              int end) const {
    constexpr int width = warp * vector + Shape::taps_w - 1;
    const int lane = static_cast<int>(threadIdx.x) % warp;
    begin = min(max(begin, 0), width), end = min(max(end, begin), width);
    if (lane >= begin + width - end) return;
    const int beyond = lane < begin ? lane : end + (lane - begin);
    copy_bytes_async<element>(line_to + (beyond - lane), line + columns()[first + beyond], true);
  }

  /// Rows of images of any strides, or that reach far beyond the border.
  __device__ void load_by_table() const {
    const int warps = static_cast<int>(blockDim.x) / warp,
              lane = static_cast<int>(threadIdx.x) % warp;
    const int width = part_columns() + Shape::taps_w - 1;
    int to = at_ + to_;
    for (int row = static_cast<int>(threadIdx.x) / warp; row < params_.rows.value();
         row += warps, to += warps * pitch_bytes) {
      const std::int64_t offset = lines()[row];
      const bool there = offset != no_line && how_ != How::table_zeros;
#pragma unroll 1
      for (int part = 0; part < Shape::vectors; ++part) {
        auto* line_to =
            reinterpret_cast<Scalar*>(dynamic_shared() + to + part * params_.part_bytes);
#pragma unroll 4
        for (int i = lane; i < width; i += warp, line_to += warp) {
          const int column = there ? columns()[part * part_columns() + i] : no_column;
          copy_bytes_async<element>(line_to, from_ + (column == no_column ? 0 : offset + column),
                                    column != no_column);
        }
      }
    }
  }

  const FieldParams& params_;
  const FieldBlock<Scalar>& block_;
  const Scalar* from_;     ///< the thread's first element of the next plane of a channel
  int to_;                 ///< where it goes in a stage, in bytes
  int planes_ = 0;         ///< how many there are
  int plane_ = 0, c_ = 0;  ///< what comes next
  int in_order_;           ///< planes from it on that follow on each other
  int at_ = 0;             ///< its stage, in bytes
  How how_;
};

}  // namespace plumb::cuda::fields
