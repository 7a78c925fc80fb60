// Copies between tensors whose elements lie side by side along different axes: channels innermost
// to planes, and back.
//
// A block turns a tile in shared memory: it reads along the axis where x's elements are neighbours,
// and writes along the one where y's are, 8 bytes at a time where they are aligned. Rows are so
// long that a warp meets each bank once in either direction.
#pragma once

#include <cstring>
#include <optional>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/copied_axes.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/primitives/host_device.hpp"

namespace plumb::cuda {

inline constexpr int transpose_threads = 256;

/// Elements of a tile along both axes.
PLUMB_HOST_DEVICE constexpr int transpose_side(std::int64_t element_bytes) {
  return element_bytes == 8 ? 32 : 64;
}

/// A copy that is turned: axes where neighbours of x lie and where those of y do, and three others.
struct TransposeAxes {
  CopiedAxis along_x, along_y, others[3];

  std::int64_t x_tiles(std::int64_t bytes) const {
    return ceil_div(along_x.outputs, std::int64_t{transpose_side(bytes)});
  }
  std::int64_t y_tiles(std::int64_t bytes) const {
    return ceil_div(along_y.outputs, std::int64_t{transpose_side(bytes)});
  }
  std::int64_t tiles(std::int64_t bytes) const {
    return x_tiles(bytes) * y_tiles(bytes) * others[0].outputs * others[1].outputs *
           others[2].outputs;
  }

  /// Nothing where it is no such copy of elements of so many bytes, or tiles would be nearly empty.
  /// `all` as axes_in_memory() has them.
  static std::optional<TransposeAxes> of(const CopiedAxes& all, std::int64_t bytes) {
    constexpr std::int64_t min_outputs = 8;
    CopiedAxes left{};
    std::size_t count = 0;
    for (const CopiedAxis& axis : all) {
      if (!axis.is_plain()) return std::nullopt;
      if (axis.outputs == 1) continue;
      CopiedAxis* const outer = count > 0 ? &left[count - 1] : nullptr;
      // Axes that go on without a gap in both tensors are one.
      if (outer && outer->x_step == axis.x_step * axis.outputs &&
          outer->y_step == axis.y_step * axis.outputs) {
        const std::int64_t outputs = outer->outputs * axis.outputs;
        *outer = {
            .outputs = outputs, .extent = outputs, .x_step = axis.x_step, .y_step = axis.y_step};
      } else {
        left[count++] = axis;
      }
    }
    if (count < 2 || left[count - 1].y_step != 1 || left[count - 1].x_step == 1)
      return std::nullopt;
    TransposeAxes turned;
    turned.along_y = left[--count];
    std::size_t others = 0;
    bool found = false;
    for (std::size_t i = 0; i < count; ++i) {
      if (!found && left[i].x_step == 1) {
        turned.along_x = left[i];
        found = true;
      } else {
        if (others == 3) return std::nullopt;
        turned.others[others++] = left[i];
      }
    }
    constexpr std::int64_t max_count = 1 << 30;  // the kernel counts in 32 bits
    if (!found || turned.along_x.outputs < min_outputs || turned.along_y.outputs < min_outputs ||
        turned.along_x.outputs > max_count || turned.along_y.outputs > max_count ||
        turned.tiles(bytes) > max_count)
      return std::nullopt;
    return turned;
  }
};

struct TransposeParams {
  Divisor<int> x_tiles, y_tiles, others[2];  ///< the innermost of the others first
  int tiles, along_x, along_y;
  std::int64_t x_row, y_row;            ///< from a neighbour along the other's axis to the next
  std::int64_t other_x[3], other_y[3];  ///< steps in elements
};

/// So many elements that lie side by side, moved at once.
template <class Bits, int width>
struct TransposeVector {
  using Word = std::conditional_t<width == 1, Bits, std::uint64_t>;
  Bits of[width];

  __device__ static TransposeVector load(const Bits* from) {
    const Word word = *reinterpret_cast<const Word*>(from);
    TransposeVector vector;
    memcpy(vector.of, &word, sizeof word);
    return vector;
  }
  __device__ void store(Bits* to) const {
    Word word;
    memcpy(&word, of, sizeof word);
    *reinterpret_cast<Word*>(to) = word;
  }
};

template <class Bits, int x_width, int y_width>
__global__ void __launch_bounds__(transpose_threads)
    transpose_tiles(const __grid_constant__ TransposeParams params, const Bits* x, Bits* y) {
  constexpr int side = transpose_side(sizeof(Bits)), pitch = side + (sizeof(Bits) == 2 ? 2 : 1);
  constexpr int x_lanes = side / x_width, x_rows = transpose_threads / x_lanes,
                y_lanes = side / y_width, y_rows = transpose_threads / y_lanes;
  __shared__ Bits staged[side * pitch];
  const int thread = static_cast<int>(threadIdx.x);
  const int x_column = thread % x_lanes * x_width, x_first = thread / x_lanes;
  const int y_column = thread % y_lanes * y_width, y_first = thread / y_lanes;
#pragma unroll 1
  for (int tile = static_cast<int>(blockIdx.x); tile < params.tiles;
       tile += static_cast<int>(gridDim.x)) {
    const auto [above_x, x_tile] = params.x_tiles.divide(tile);
    const auto [above_y, y_tile] = params.y_tiles.divide(above_x);
    const auto [above, other0] = params.others[0].divide(above_y);
    const auto [other2, other1] = params.others[1].divide(above);
    const Bits* const from =
        x + other0 * params.other_x[0] + other1 * params.other_x[1] + other2 * params.other_x[2];
    Bits* const to =
        y + other0 * params.other_y[0] + other1 * params.other_y[1] + other2 * params.other_y[2];
    const int x_begin = x_tile * side, y_begin = y_tile * side;
    TransposeVector<Bits, x_width> read[side / x_rows];
#pragma unroll
    for (int i = 0; i < side / x_rows; ++i) {
      const int column = x_begin + x_column, row = y_begin + x_first + i * x_rows;
      if (column < params.along_x && row < params.along_y)
        read[i] = TransposeVector<Bits, x_width>::load(from + row * params.x_row + column);
    }
#pragma unroll
    for (int i = 0; i < side / x_rows; ++i)
#pragma unroll
      for (int j = 0; j < x_width; ++j)
        staged[(x_first + i * x_rows) * pitch + x_column + j] = read[i].of[j];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < side / y_rows; ++i) {
      const int in_tile = y_first + i * y_rows, row = x_begin + in_tile,
                column = y_begin + y_column;
      if (row >= params.along_x || column >= params.along_y) continue;
      TransposeVector<Bits, y_width> turned;
#pragma unroll
      for (int j = 0; j < y_width; ++j) turned.of[j] = staged[(y_column + j) * pitch + in_tile];
      turned.store(to + row * params.y_row + column);
    }
    __syncthreads();
  }
}

/// Whether rows along an axis, and all steps beside them, are of whole vectors of 8 bytes.
inline bool transposes_vectors(const void* data, std::int64_t bytes, std::int64_t along,
                               std::int64_t row, const std::int64_t (&steps)[3]) {
  const std::int64_t width = 8 / bytes;
  return reinterpret_cast<std::uintptr_t>(data) % 8 == 0 && along % width == 0 &&
         row % width == 0 && steps[0] % width == 0 && steps[1] % width == 0 &&
         steps[2] % width == 0;
}

/// Puts the copy on the stream, of elements of 2, 4 or 8 bytes.
inline void transpose(const TransposeAxes& axes, const void* x, void* y, std::int64_t bytes,
                      void* stream) {
  const auto& others = axes.others;
  const auto tiles = static_cast<int>(axes.tiles(bytes));
  TransposeParams params{
      .x_tiles = Divisor<int>(axes.x_tiles(bytes)),
      .y_tiles = Divisor<int>(axes.y_tiles(bytes)),
      .others = {Divisor<int>(others[2].outputs), Divisor<int>(others[1].outputs)},
      .tiles = tiles,
      .along_x = static_cast<int>(axes.along_x.outputs),
      .along_y = static_cast<int>(axes.along_y.outputs),
      .x_row = axes.along_y.x_step,
      .y_row = axes.along_x.y_step,
      .other_x = {},
      .other_y = {}};
  for (int i = 0; i < 3; ++i)
    params.other_x[i] = others[2 - i].x_step, params.other_y[i] = others[2 - i].y_step;
  const bool x_vectors =
      transposes_vectors(x, bytes, axes.along_x.outputs, params.x_row, params.other_x);
  const bool y_vectors =
      transposes_vectors(y, bytes, axes.along_y.outputs, params.y_row, params.other_y);
  const auto start = [&]<class Bits, int x_width, int y_width>() {
    Launch(stream, static_cast<unsigned>(tiles), transpose_threads)(
        transpose_tiles<Bits, x_width, y_width>, params, static_cast<const Bits*>(x),
        static_cast<Bits*>(y));
  };
  const auto with_widths = [&]<class Bits, int width>() {
    if (x_vectors && y_vectors) return start.template operator()<Bits, width, width>();
    if (x_vectors) return start.template operator()<Bits, width, 1>();
    if (y_vectors) return start.template operator()<Bits, 1, width>();
    start.template operator()<Bits, 1, 1>();
  };
  switch (bytes) {
    case 8: return start.template operator()<std::uint64_t, 1, 1>();
    case 4: return with_widths.template operator()<std::uint32_t, 2>();
    default: return with_widths.template operator()<std::uint16_t, 4>();
  }
}

}  // namespace plumb::cuda
