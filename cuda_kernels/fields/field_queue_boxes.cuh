// Planes come to the queue's shared memory as boxes that the copy engine loads (PTX
// cp.async.bulk.tensor), with zeros around the image. One thread begins the copies, and those that
// sum wait for a barrier. What another boundary than zeros has around the image, threads add.
#pragma once

#include "cuda_kernels/fields/field_load.cuh"
#include "cuda_kernels/fields/field_queue_shape.cuh"
#include "cuda_kernels/primitives/bulk_copy.cuh"
#include "cuda_kernels/primitives/tensor_copy.cuh"

namespace plumb::cuda::fields {

/// What threads share for the stages of the ring.
struct QueueBarriers {
  StageBarrier full[stages];
  Mbarrier empty[stages];      ///< a thread of each warp arrives
  std::int64_t plane[stages];  ///< where the plane of a stage begins in the image, or -1 for zeros
};

/// Loads the planes of a block in their order, some channels at a time.
template <class Scalar, class Shape>
class QueueBoxes {
 public:
  /// All threads call this; a barrier must follow.
  __device__ QueueBoxes(const FieldParams& params, const FieldBlock<Scalar>& block,
                        const CUtensorMap& map, QueueBarriers& barriers)
      : params_(params), block_(block), map_(map), barriers_(barriers) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < stages; ++i) {
        barriers.full[i].init(1);
        barriers.empty[i].init(static_cast<int>(blockDim.x) / warp);
      }
      publish_barriers();
    }
    list_patches();
  }

  /// Begins to load the first of `planes` planes.
  __device__ void start(int planes) {
    left_ = planes * (params_.view.c / params_.channels);
    if (threadIdx.x == 0)
      for (int i = 0; i < min(stages - 1, left_); ++i) load(i);
    if (patches_ > 0) patch(0);
  }

  /// Waits for the next channels of a plane and returns their stage, in bytes; begins to load
  /// others into the stage that is free.
  __device__ int next() {
    const bool first = number_ == 0;
    if (threadIdx.x == 0 && left_ >= stages) {
      const int free = first ? stages - 1 : number_ - 1;
      barriers_.empty[free].wait(first ? parity_ ^ 1 : parity_);
      load(free);
    }
    barriers_.full[number_].wait(parity_);
    if (patches_ > 0) {
      // The plane after this one has probably come.
      if (left_ > 1)
        patch(next_number());
      else
        commit_copies();
      wait_for_copies<1>();
      order_shared_writes();
      __syncthreads();
    }
    return number_ * params_.stage_bytes;
  }

  /// Gives back the stage that next() has returned.
  __device__ void release() {
    __syncwarp();
    if (static_cast<int>(threadIdx.x) % warp == 0) barriers_.empty[number_].arrive();
    number_ = next_number();
    if (number_ == 0) parity_ ^= 1;
    --left_;
  }

 private:
  static constexpr int warp = 32, vector = vector_elements<Scalar>;
  static constexpr int element = static_cast<int>(sizeof(Scalar));
  static constexpr int pitch_bytes = Shape::template pitch_bytes<Scalar>;
  static constexpr int lead = Shape::template lead<Scalar>;

  /// An element around the image: its offset in the image's plane in elements, and where it goes in
  /// a stage, in bytes.
  struct Patch {
    int from, to;
  };

  __device__ int next_number() const { return number_ + 1 == stages ? 0 : number_ + 1; }
  __device__ int part_columns() const { return vector << params_.threads_w_bits; }
  __device__ Patch* list() const {
    return reinterpret_cast<Patch*>(dynamic_shared() + params_.patches_at);
  }

  /// One thread begins to load the next channels of a plane. Beyond the border of zeros it is a box
  /// outside of the tensor.
  __device__ void load(int stage) {
    const FieldView& view = params_.view;
    const auto at = static_cast<int>(block_.first_u) + plane_;
    const int mapped_u = at_boundary(view.u.boundary, at, static_cast<int>(view.u.extent));
    StageBarrier& full = barriers_.full[stage];
    if (patches_ > 0)
      barriers_.plane[stage] = mapped_u < 0 ? -1 : mapped_u * view.u.x_step + c_ * view.x_c;
    full.arrive_expecting(params_.channels * Shape::vectors * params_.rows.value() * pitch_bytes);
    char* to = dynamic_shared() + stage * params_.stage_bytes;
    const int first = static_cast<int>(block_.first_w) - lead;
#pragma unroll 1
    for (int i = 0; i < params_.channels; ++i, ++c_) {
      int corner[] = {first, static_cast<int>(block_.first_v), mapped_u < 0 ? at : mapped_u, c_,
                      block_.image};
#pragma unroll
      for (int part = 0; part < Shape::vectors; ++part) {
        full.copy_tiled(to, map_, corner);
        to += params_.part_bytes, corner[0] += part_columns();
      }
    }
    if (c_ == view.c) c_ = 0, ++plane_;
  }

  /// Waits for the stage that is next to be read, or the first, and begins to copy what its
  /// channels have around the image.
  __device__ void patch(int stage) {
    const bool turns = stage == 0 && number_ > 0;
    barriers_.full[stage].wait(turns ? parity_ ^ 1 : parity_);
    const std::int64_t plane = barriers_.plane[stage];
    if (plane >= 0) {
      const Scalar* from = block_.x + plane;
      char* to = dynamic_shared() + stage * params_.stage_bytes;
#pragma unroll 1
      for (int c = 0; c < params_.channels; ++c) {
        for (int i = static_cast<int>(threadIdx.x); i < patches_;
             i += static_cast<int>(blockDim.x)) {
          const Patch one = list()[i];
          copy_bytes_async<element>(to + one.to, from + one.from, true);
        }
        from += params_.view.x_c, to += params_.channel_bytes;
      }
    }
    commit_copies();
  }

  /// Lists what outputs of the block meet around the image.
  __device__ void list_patches() {
    const FieldView& view = params_.view;
    const bool by_columns = view.w.boundary != Boundary::zeros,
               by_rows = view.v.boundary != Boundary::zeros;
    if (!by_columns && !by_rows) return;
    const int rows = min(params_.rows.value(), block_.count_v + view.v.taps - 1);
    const Range v(block_.first_v, rows, view.v.extent);
#pragma unroll
    for (int part = 0; part < Shape::vectors; ++part) {
      const int first = part * part_columns(), left = block_.count_w + Shape::taps_w - 1 - first;
      const Range w(block_.first_w + first, max(0, min(left, pitch_bytes / element - lead)),
                    view.w.extent);
      // Rows in the image lack columns; of rows beyond it all columns are listed.
      const int beside = by_columns ? w.outside() : 0, across = by_columns ? w.count : w.inside();
      const int in_rows = v.inside() * beside, above = by_rows ? v.outside() * across : 0;
      for (int i = static_cast<int>(threadIdx.x); i < in_rows + above;
           i += static_cast<int>(blockDim.x)) {
        int row, column;
        if (i < in_rows) {
          row = i / beside, column = w.number_outside(i - row * beside);
          row += v.begin;
        } else {
          row = (i - in_rows) / across;
          column = (by_columns ? 0 : w.begin) + (i - in_rows - row * across);
          row = v.number_outside(row);
        }
        const std::int64_t from_v = mapped(block_.first_v + row, view.v),
                           from_w = mapped(block_.first_w + first + column, view.w);
        list()[patches_ + i] = {
            static_cast<int>(from_v * view.v.x_step + from_w),
            part * params_.part_bytes + row * pitch_bytes + (lead + column) * element};
      }
      patches_ += in_rows + above;
    }
  }

  /// Which of `count` coordinates from `first` on lie in the image.
  struct Range {
    int count, begin, end;

    __device__ Range(std::int64_t first, int count_, std::int64_t extent) : count(count_) {
      begin = clipped(-first, count), end = max(begin, clipped(extent - first, count));
    }
    __device__ int inside() const { return end - begin; }
    __device__ int outside() const { return count - inside(); }
    __device__ int number_outside(int i) const { return i < begin ? i : i - begin + end; }
  };

  const FieldParams& params_;
  const FieldBlock<Scalar>& block_;
  const CUtensorMap& map_;
  QueueBarriers& barriers_;
  int plane_ = 0, c_ = 0;        ///< what is loaded next
  int left_ = 0;                 ///< planes that are still to be read
  int number_ = 0, parity_ = 0;  ///< the stage that is read, and that of its barrier
  int patches_ = 0;              ///< in the list
};

}  // namespace plumb::cuda::fields
