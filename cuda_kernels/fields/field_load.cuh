// The input of a block's outputs comes to shared memory with whatever the boundary puts around the
// image, so that the sums know of no boundary.
#pragma once

#include <climits>

#include "cuda_kernels/fields/field_params.cuh"
#include "cuda_kernels/primitives/async_copy.cuh"
#include "cuda_kernels/primitives/boundary.cuh"

namespace plumb::cuda::fields {

/// Returns the coordinate of the element that stands at `at`, or -1 for a zero.
__device__ inline std::int64_t mapped(std::int64_t at, const FieldAxis& axis) {
  return at_boundary(axis.boundary, at, axis.extent);
}

/// Says whether a tap of the block may lie in a padding of zeros.
__device__ inline bool touches_zeros(const FieldAxis& axis, std::int64_t first, int outputs) {
  const std::int64_t begin = first - axis.before;
  return axis.boundary == Boundary::zeros &&
         (begin < 0 || begin + outputs + axis.taps - 1 > axis.extent);
}

/// Loads the input of a block. Where its lines begin, and which elements stand beyond the border,
/// is found once and kept in tables in shared memory.
template <class Scalar>
class FieldLoader {
 public:
  __device__ FieldLoader(const FieldParams& params, const FieldBlock<Scalar>& block, char* shared)
      : params_(params),
        block_(block),
        lines_(reinterpret_cast<std::int64_t*>(shared + params.lines_at)),
        columns_(reinterpret_cast<int*>(shared + params.columns_at)) {}

  /// Fills the tables, with the lines of `planes` planes or, for 0, of a plane that load() is told.
  /// A barrier must follow.
  __device__ void make_tables(int planes) const {
    const FieldView& view = params_.view;
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    for (int line = thread; line < max(planes, 1) * params_.rows.value(); line += threads) {
      const auto [plane, row] = params_.rows.divide(line);
      const std::int64_t u = planes > 0 ? mapped(block_.first_u + plane, view.u) : 0,
                         v = mapped(block_.first_v + row, view.v);
      lines_[line] = u < 0 || v < 0 ? no_line : u * view.u.x_step + v * view.v.x_step;
    }
    if (!params_.has_columns) return;
    for (int at = thread; at < params_.row_vectors.value() * vector; at += threads) {
      const std::int64_t w = mapped(block_.first_w + at, view.w);
      columns_[at] = w < 0 ? no_column : static_cast<int>(w * view.w.x_step);
    }
  }

  /// Begins to load `count` lines, whose offsets are from `from`.
  __device__ void load(Scalar* to, const Scalar* from, int count) const {
    if (params_.x_vectors)
      load_vectors(to, from, count);
    else
      load_rows(to, from, count);
  }

 private:
  static constexpr int vector = vector_elements<Scalar>;
  static constexpr std::int64_t no_line = INT64_MIN;
  static constexpr int no_column = INT_MIN;

  __device__ void load_vectors(Scalar* to, const Scalar* from, int count) const {
    const int vectors = count * params_.row_vectors.value();
    const int begin = block_.begin, end = block_.end - vector;
    from += block_.first_w;
    for (int i = static_cast<int>(threadIdx.x); i < vectors; i += static_cast<int>(blockDim.x)) {
      const auto [line, in_row] = params_.row_vectors.divide(i);
      const int at = in_row * vector;
      const std::int64_t offset = lines_[line];
      Scalar* const here = to + line * params_.pitch + place(in_row) * vector;
      if (at >= begin && at <= end && offset != no_line) {
        copy_16_bytes_async(here, from + (offset + at));
      } else {
#pragma unroll 1
        for (int j = 0; j < vector; ++j)
          load_element(here + j, from - block_.first_w + offset, at + j, offset != no_line);
      }
    }
  }

  /// Loads element by element, a group of threads a row.
  __device__ void load_rows(Scalar* to, const Scalar* from, int count) const {
    const int lanes = 1 << params_.row_bits,
              rows = static_cast<int>(blockDim.x) >> params_.row_bits;
    const int lane = static_cast<int>(threadIdx.x) & (lanes - 1);
    const bool all_inside =
        params_.view.w.x_step == 1 && block_.begin == 0 && block_.end >= params_.columns;
    const std::int64_t first = block_.first_w + lane;
    to += place_element<Scalar>(lane);
    for (int line = static_cast<int>(threadIdx.x) >> params_.row_bits; line < count; line += rows) {
      const std::int64_t offset = lines_[line];
      Scalar* here = to + line * params_.pitch;
      if (all_inside && offset != no_line) {
        const Scalar* element = from + (offset + first);
#pragma unroll 4
        for (int at = lane; at < params_.columns; at += lanes) {
          copy_bytes_async<sizeof(Scalar)>(here, element, true);
          element += lanes, here += place_element<Scalar>(lanes);
        }
      } else {
#pragma unroll 1
        for (int at = lane; at < params_.columns; at += lanes) {
          load_element(here, from + offset, at, offset != no_line);
          here += place_element<Scalar>(lanes);
        }
      }
    }
  }

  /// Loads an element of the row that begins at `from`, if `inside` says that there is one.
  __device__ void load_element(Scalar* to, const Scalar* from, int at, bool inside) const {
    std::int64_t offset = (block_.first_w + at) * params_.view.w.x_step;
    if (at < block_.begin || at >= block_.end) {
      if (params_.has_columns) {
        offset = columns_[at];
        inside = inside && offset != no_column;
      } else {
        const std::int64_t w = mapped(block_.first_w + at, params_.view.w);
        offset = w * params_.view.w.x_step;
        inside = inside && w >= 0;
      }
    }
    copy_bytes_async<sizeof(Scalar)>(to, inside ? from + offset : block_.x, inside);
  }

  const FieldParams& params_;
  const FieldBlock<Scalar>& block_;
  std::int64_t* const lines_;  ///< offsets of the rows in the image
  int* const columns_;         ///< offsets of the columns in a row
};

/// Copies the filter `k` of channel `c` to shared memory, where `index(t, r, s)` says where each
/// weight goes.
template <class Scalar, class Index>
__device__ void load_filter(const FieldView& view, const Scalar* w, int k, int c, Scalar* to,
                            const Index& index) {
  const int count = view.u.taps * view.v.taps * view.w.taps;
  const Scalar* const from = w + (k * view.w_k + c * view.w_c);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const int row = i / view.w.taps, s = i - row * view.w.taps;
    const int t = row / view.v.taps, r = row - t * view.v.taps;
    to[index(t, r, s)] = from[t * view.u.w_step + r * view.v.w_step + s * view.w.w_step];
  }
}

}  // namespace plumb::cuda::fields
