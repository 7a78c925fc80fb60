// The rows of input under a warp's outputs, in a ring in shared memory that the warp fills ahead of
// its use.
#pragma once

#include "cuda_kernels/conv/deep_shape.cuh"
#include "cuda_kernels/primitives/async_copy.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::depthwise {

struct StagedParams {
  DeepShape<int> shape;
  Divisor<int> slices{};                                             ///< of the channels
  Divisor<int> chunks{}, column_phases{}, segments{}, row_phases{};  ///< warps' outputs
  Divisor<int> lanes{};                                              ///< threads along the channels
  Divisor<int> vectors{};                                            ///< copies of a pixel
  int images = 0, all_images = 0;                                    ///< of a warp, and all
  int channels = 0, runs = 0, length = 0;  ///< of a warp: a slice, runs of columns, rows
  int row_elements = 0;                    ///< of a row of the ring
  int filter_bytes = 0;
  // From a copy of a lane to its next, and from a row to the next.
  int copy_elements = 0, copy_x_step = 0, row_x_step = 0;
};

/// Rows of x under a warp's outputs, of each of its images: those from `begin` to `end` are there,
/// of `count`. The row number 0 is `h`.
struct RowRange {
  int h, begin, end, count;
};

/// A warp's rows of each of its images, and `depth` of them in shared memory. Each lane copies up
/// to `max_copies` vectors of a row. Rows of padding are rows of zeros with `zero_rows`, otherwise
/// they are left out.
template <class Stored, int depth, int max_copies, bool zero_rows>
class RowRing {
 public:
  /// `ring` is the warp's.
  __device__ RowRing(const StagedParams& params, Stored* ring)
      : params_(params), to_(ring + static_cast<int>(threadIdx.x % 32) * vector) {}

  /// Starts the first rows of `images` images, of which `image` is the first. The columns begin at
  /// `w`, which may be in the padding, and the channels at `k`.
  __device__ void begin(const Stored* image, int images, RowRange range, int w, int k,
                        int columns) {
    const DeepShape<int>& shape = params_.shape;
    const auto [pixel, in_pixel] = params_.vectors.divide(static_cast<int>(threadIdx.x % 32));
    const int apart = params_.column_phases.value(), c = k + in_pixel * vector;
    const int together = params_.vectors.quotient(32);
    const int first = zero_rows ? 0 : range.begin;
    rows_ = zero_rows ? range.count : max(range.end - range.begin, 0);
    // Counted as left_: such rows are there.
    first_there_ = rows_ - range.begin, last_there_ = rows_ - range.end;
    left_ = rows_ > 0 ? images * image_unit + rows_ : 0;
    from_ = image + ((range.h + first * params_.row_phases.value()) * shape.rows.x_step +
                     (w + pixel * apart) * shape.columns.x_step + c * shape.x_c);
#pragma unroll
    for (int i = 0; i < max_copies; ++i) {
      const int column = i * together + pixel, at = w + column * apart;
      if (pixel >= together || column >= columns) continue;
      if (c < shape.k.value() && at >= 0 && at < shape.columns.extent)
        copied_ |= 1u << i;
      else
        for (int row = 0; row < depth; ++row)
          clear(row * params_.row_elements + i * params_.copy_elements);
    }
#pragma unroll
    for (int i = 0; i < depth - 1; ++i) load(i * params_.row_elements);
  }

  /// Returns where the next row begins in the ring, and has another loaded in the place of the one
  /// before, which no lane reads any more.
  __device__ __forceinline__ int next() {
    wait_for_copies<depth - 2>();
    __syncwarp();
    const int row = at_, last = (depth - 1) * params_.row_elements;
    load(row == 0 ? last : row - params_.row_elements);
    at_ = row == last ? 0 : row + params_.row_elements;
    return row;
  }

 private:
  static constexpr int vector = 16 / sizeof(Stored);
  static constexpr int image_unit = 256;
  static_assert(2 * march_max_length + 7 < image_unit);

  /// Columns of padding and channels that are not there are zeros of each row.
  __device__ void clear(int at) {
    for (int e = 0; e < vector; ++e) to_[at + e] = Stored(0);
  }

  __device__ __forceinline__ bool is_there() const {
    const int left = left_ % image_unit;
    return !zero_rows || (left <= first_there_ && left > last_there_);
  }
  __device__ __forceinline__ void load(int at) {
    if (left_ >= image_unit) {
      if (is_there()) {
        const Stored* from = from_;
#pragma unroll
        for (int i = 0; i < max_copies; ++i) {
          if (copied_ >> i & 1) copy_16_bytes_async(to_ + (at + i * params_.copy_elements), from);
          from += params_.copy_x_step;
        }
      } else {
#pragma unroll 1
        for (int i = 0; i < max_copies; ++i)
          if (copied_ >> i & 1) clear(at + i * params_.copy_elements);
      }
      from_ += params_.row_x_step;
      if (--left_ % image_unit == 0) {
        left_ += rows_ - image_unit;
        from_ += params_.shape.x_n - rows_ * params_.row_x_step;
      }
    }
    commit_copies();
  }

  const StagedParams& params_;
  Stored* to_;                    ///< the lane's first copy of the ring's first row
  const Stored* from_ = nullptr;  ///< what the lane copies next
  unsigned copied_ = 0;           ///< which of its copies there are
  int rows_ = 0, first_there_ = 0, last_there_ = 0;
  int left_ = 0;  ///< images, in units, and beside them rows of the first
  int at_ = 0;    ///< the next row in the ring
};

}  // namespace plumb::cuda::depthwise
