// How the threads of the columns read their input: inside of the image at fixed distances from a
// pointer, at its border through tables of what the boundary puts there.
#pragma once

#include <climits>

#include "cuda_kernels/fields/field_load.cuh"

namespace plumb::cuda::fields {

/// Stands for a plane, row or column in a padding of zeros.
inline constexpr std::int64_t no_plane = INT64_MIN;
inline constexpr int no_line = INT_MIN;

/// Fills the table of a block's planes, and ends it with none. All threads call this.
template <class Scalar>
__device__ void find_planes(const FieldView& view, const FieldBlock<Scalar>& block,
                            std::int64_t* offsets) {
  const int planes = block.count_u + view.u.taps - 1;
  for (int i = static_cast<int>(threadIdx.x); i <= planes; i += static_cast<int>(blockDim.x)) {
    const std::int64_t u = i < planes ? mapped(block.first_u + i, view.u) : -1;
    offsets[i] = u < 0 ? no_plane : u * view.u.x_step;
  }
}

/// Fills the table of a block's columns, unless no warp needs it. All threads call this.
template <class Scalar>
__device__ void find_columns(const FieldParams& params, const FieldBlock<Scalar>& block,
                             int* offsets) {
  const FieldView& view = params.view;
  const int rows = params.tile_v + view.v.taps - 1;
  if (view.w.x_step == 1 && block.first_w >= 0 && block.first_w + params.columns <= view.w.extent &&
      block.first_v >= 0 && block.first_v + rows <= view.v.extent)
    return;
  for (int i = static_cast<int>(threadIdx.x); i < params.columns;
       i += static_cast<int>(blockDim.x)) {
    const std::int64_t w = mapped(block.first_w + i, view.w);
    offsets[i] = w < 0 ? no_line : static_cast<int>(w * view.w.x_step);
  }
}

/// What a thread reads of a plane for one tap along w: rows, or columns that are a warp apart.
template <class Scalar, int taps_v, int outputs>
struct ColumnShape {
  static constexpr bool by_rows = taps_v > 1;
  static constexpr int inputs = by_rows ? outputs + taps_v - 1 : outputs;
};

/// Input inside of the image, whose rows are contiguous.
template <class Scalar, int taps_v, int outputs>
class InsideInput : public ColumnShape<Scalar, taps_v, outputs> {
  using Shape = ColumnShape<Scalar, taps_v, outputs>;
  static constexpr int pointers = Shape::by_rows ? Shape::inputs : 1;

 public:
  __device__ InsideInput(const FieldView& view, const FieldBlock<Scalar>& block, int v, int w) {
    const Scalar* first = block.x + ((block.first_v + v) * view.v.x_step + (block.first_w + w));
#pragma unroll
    for (int i = 0; i < pointers; ++i, first += view.v.x_step) at_[i] = first;
  }
  __device__ void move(std::int64_t distance) {
#pragma unroll
    for (int i = 0; i < pointers; ++i) at_[i] += distance;
  }
  __device__ void read(int s, Scalar (&x)[Shape::inputs]) const {
#pragma unroll
    for (int i = 0; i < Shape::inputs; ++i)
      x[i] = __ldg(Shape::by_rows ? at_[i] + s : at_[0] + s + 32 * i);
  }

 private:
  const Scalar* at_[pointers];
};

/// Input anywhere, with any stride of its columns.
template <class Scalar, int taps_v, int outputs>
class BorderInput : public ColumnShape<Scalar, taps_v, outputs> {
  using Shape = ColumnShape<Scalar, taps_v, outputs>;

 public:
  __device__ BorderInput(const FieldView& view, const FieldBlock<Scalar>& block, int v,
                         const int* columns)
      : plane_(block.x), columns_(columns) {
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const std::int64_t row = mapped(block.first_v + v + i, view.v);
      row_[i] = row < 0 ? no_line : static_cast<int>(row * view.v.x_step);
    }
  }
  __device__ void move(std::int64_t distance) { plane_ += distance; }
  __device__ void read(int s, Scalar (&x)[Shape::inputs]) const {
    int column = columns_[s];
#pragma unroll
    for (int i = 0; i < Shape::inputs; ++i) {
      if (!Shape::by_rows && i > 0) column = columns_[s + 32 * i];
      const int row = row_[Shape::by_rows ? i : 0];
      const bool there = row != no_line && column != no_line;
      x[i] = there ? __ldg(plane_ + (row + column)) : Scalar{0};
    }
  }

 private:
  static constexpr int rows = Shape::by_rows ? Shape::inputs : 1;
  const Scalar* plane_;
  const int* columns_;  ///< of the thread
  int row_[rows];
};

}  // namespace plumb::cuda::fields
