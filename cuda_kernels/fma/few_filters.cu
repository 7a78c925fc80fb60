// One to three filters over few channels: a thread keeps the outputs of a small rectangle in
// registers and slides a window of input rows down over them.
//
// Tiling: a thread makes 4 rows x 8 columns of outputs of one filter, or 4 x 4 of two or three
//   filters. It has the input under one row of the filters in registers: for the next row it reads
//   one more row of input, and the row of weights that all threads read together, and does 4 x
//   columns x S FMAs for each filter. A block is 128 threads, whose rectangles stand beside and
//   below each other as the image wants it; its input comes to shared memory channel by channel.
//   Outputs go to shared memory too, and from there to y in whole rows.
// Bytes: y is written once; x is read once, and its rows and columns where blocks overlap again
//   from L2; w is read once a block.
// Wins: it wins with one to three filters, which leave most of a product's columns empty: tensor
//   cores then multiply zeros, and tiles of several filters sum for filters that are not there.
// Measured: docs/kernels/few_filters.md.
#include <algorithm>
#include <string>
#include <utility>

#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/cost/fma.hpp"
#include "cuda_kernels/primitives/async_copy.cuh"
#include "cuda_kernels/primitives/compile_time.hpp"
#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/primitives/vectors.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_bits = 7, block_threads = 1 << block_bits, warps = block_threads / 32;
constexpr double wanted_bytes = 72 << 10;  // three blocks on a multiprocessor with 228 KB

/// Kernels are compiled for these widths of filters; a width in between takes the next one, with
/// zeros.
using Widths = CompileTime<1, 2, 3, 4, 5, 7, 9, 11>;
constexpr int widest = 11;
using Filters = CompileTime<1, 2, 3>;
constexpr int max_filters = 3;

__host__ __device__ constexpr int fours(int count) { return (count + 3) / 4; }

/// A kernel is compiled for a Unit, which is a type because nvcc does not pass structs to kernel
/// templates.
template <int filters_, int width_>
struct Unit {
  static constexpr int filters = filters_, width = width_;
  static constexpr int rows = 4, columns = filters == 1 ? 8 : 4;  ///< of outputs
  static constexpr int x_fours = fours(columns + width - 1);      ///< fours in a row of input
  static constexpr int w_pitch = 4 * fours(width);  ///< of a row of weights in shared memory
};

/// Returns where an element lies in shared memory. Lanes that read every other four elements would
/// meet each other's banks, so the fours are exchanged in pairs in every second stretch of 32.
template <class Unit>
__device__ int place(int element) {
  return Unit::columns == 8 ? element ^ (element >> 3 & 4) : element;
}

/// The cut of the outputs into tiles, one for a block.
struct Tiles {
  int column_bits;    ///< log2 of the threads side by side
  int rows, columns;  ///< of outputs
  int x_rows, pitch;  ///< rows of the input under the outputs, and their pitch
  int shift;          ///< outputs by which the first tile begins before the first column
  bool aligned;       ///< whether rows of input begin at multiples of 16 bytes
  int w_at;           ///< elements in front of the filters in shared memory
  double bytes;       ///< of shared memory
  std::int64_t row_tiles, column_tiles;

  template <class Unit>
  static Tiles make(const ConvProblem& problem, Unit, int column_bits, bool aligned);
  double items(const ConvProblem& problem) const {
    return static_cast<double>(problem.n) * static_cast<double>(row_tiles * column_tiles);
  }
};

template <class Unit>
Tiles Tiles::make(const ConvProblem& problem, Unit, int column_bits, bool aligned) {
  Tiles tiles{};
  tiles.column_bits = column_bits, tiles.aligned = aligned;
  const int column_units = 1 << column_bits, row_units = block_threads >> column_bits;
  tiles.rows = row_units * Unit::rows;
  tiles.columns = column_units * Unit::columns;
  // Padding moves the input against the outputs; where input rows are aligned the tiles follow the
  // input.
  tiles.shift = aligned ? static_cast<int>((4 - problem.padding.left % 4) % 4) : 0;
  tiles.row_tiles = ceil_div(problem.p(), tiles.rows);
  tiles.column_tiles = ceil_div(problem.q() + tiles.shift, tiles.columns);
  // No tile of that many rows fits shared memory: filters taller than that are refused by the
  // bytes.
  tiles.x_rows = tiles.rows + static_cast<int>(std::min<std::int64_t>(problem.r, 1 << 16)) - 1;
  tiles.pitch = (column_units - 1) * Unit::columns + 4 * Unit::x_fours;
  tiles.w_at = (tiles.x_rows * tiles.pitch + 7) / 8 * 8;
  const double filters = static_cast<double>(problem.r) * Unit::filters * Unit::w_pitch;
  const double outputs = static_cast<double>(tiles.rows * tiles.columns) * Unit::filters;
  tiles.bytes = sizeof(float) * std::max(tiles.w_at + filters, outputs);
  return tiles;
}

/// The tiles as kernels see them.
struct BlockTiles : Tiles {
  Divisor<int> row_tile, column_tile, x_four;

  explicit BlockTiles(const Tiles& tiles)
      : Tiles(tiles), row_tile(row_tiles), column_tile(column_tiles), x_four(pitch / 4) {}
};

/// A block's first output.
struct Origin {
  int n, p, q;

  __device__ explicit Origin(const BlockTiles& tiles) {
    const auto [above_columns, column_tile] =
        tiles.column_tile.divide(static_cast<int>(blockIdx.x));
    const auto [image, row_tile] = tiles.row_tile.divide(above_columns);
    n = image;
    p = row_tile * tiles.rows;
    q = column_tile * tiles.columns - tiles.shift;
  }
};

/// Copies the input under a block's outputs, with zeros where it lies outside the image, and four
/// elements at a time where rows are aligned.
template <class Unit>
__device__ void load_input(const ConvShape<int>& shape, const BlockTiles& tiles,
                           const Origin& origin, const float* plane, float* x_tile) {
  const int first_h = origin.p - shape.top, first_w = origin.q - shape.left;
  const auto inside = [](int at, int extent) { return at >= 0 && at < extent; };
  const auto copy = [&](int to, int h, int w) {
    const bool valid = inside(h, shape.h) && inside(w, shape.w);
    copy_async(x_tile + place<Unit>(to),
               plane + (valid ? h * shape.x_step.h + w * shape.x_step.w : 0), valid);
  };
  const int thread = static_cast<int>(threadIdx.x);
  if (tiles.aligned) {
    const int count = tiles.x_rows * tiles.x_four.value();
    for (int number = thread; number < count; number += block_threads) {
      const auto [row, four] = tiles.x_four.divide(number);
      const int h = first_h + row, w = first_w + 4 * four;
      if (inside(h, shape.h) && w >= 0 && w + 3 < shape.w)
        copy_16_bytes_async(x_tile + place<Unit>(4 * number), plane + (h * shape.x_step.h + w));
      else
        for (int i = 0; i < 4; ++i) copy(4 * number + i, h, w + i);
    }
  } else {
    for (int row = thread / 32; row < tiles.x_rows; row += warps)
#pragma unroll 4
      for (int column = thread % 32; column < tiles.pitch; column += 32)
        copy(row * tiles.pitch + column, first_h + row, first_w + column);
  }
}

/// Copies the filters of a channel to w_tile[row][filter][column], with zeros beyond the last
/// column.
template <class Unit>
__device__ void load_filters(const ConvShape<int>& shape, const float* w, float* w_tile) {
  const int count = shape.r.value() * Unit::filters * Unit::w_pitch;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += block_threads) {
    const int s = i % Unit::w_pitch, row = i / Unit::w_pitch;
    const int k = row % Unit::filters, r = row / Unit::filters;
    const bool valid = s < shape.s.value();
    copy_async(w_tile + i,
               w + (valid ? k * shape.w_step.k + r * shape.w_step.r + s * shape.w_step.s : 0),
               valid);
  }
}

template <class Unit>
struct Sums {
  float of[Unit::filters][Unit::rows][Unit::columns] = {};

  /// Adds the products of a channel. `first` is the first element under the thread's outputs.
  __device__ void add_channel(const float* x_tile, int first, int pitch, const float* w_tile,
                              int filter_rows) {
    // Row p of the outputs meets row r of the filters in row p + r of the input, which lies in
    // input[(p + r) % rows].
    float input[Unit::rows][4 * Unit::x_fours];
    int at = first;
#pragma unroll
    for (int p = 0; p < Unit::rows - 1; ++p, at += pitch) read_row(x_tile, at, input[p]);
    for (int turn = 0; turn < filter_rows; turn += Unit::rows) {
#pragma unroll
      for (int r = 0; r < Unit::rows; ++r) {
        if (turn + r == filter_rows) return;
        read_row(x_tile, at, input[(r + Unit::rows - 1) % Unit::rows]);
        at += pitch;
        float weights[Unit::filters * Unit::w_pitch];
        read_vectors<4>(w_tile, weights);
        w_tile += Unit::filters * Unit::w_pitch;
#pragma unroll
        for (int p = 0; p < Unit::rows; ++p) add_row(p, input[(p + r) % Unit::rows], weights);
      }
    }
  }

 private:
  __device__ static void read_row(const float* x_tile, int at, float (&row)[4 * Unit::x_fours]) {
#pragma unroll
    for (int i = 0; i < Unit::x_fours; ++i) {
      float four[4];
      read_vectors<4>(x_tile + place<Unit>(at + 4 * i), four);
#pragma unroll
      for (int j = 0; j < 4; ++j) row[4 * i + j] = four[j];
    }
  }

  __device__ void add_row(int p, const float (&row)[4 * Unit::x_fours],
                          const float (&weights)[Unit::filters * Unit::w_pitch]) {
#pragma unroll
    for (int s = 0; s < Unit::width; ++s)
#pragma unroll
      for (int k = 0; k < Unit::filters; ++k)
#pragma unroll
        for (int q = 0; q < Unit::columns; ++q)
          of[k][p][q] = fma(row[q + s], weights[k * Unit::w_pitch + s], of[k][p][q]);
  }
};

/// Writes a block's sums from shared memory to y in vectors of `vector`; a warp takes a row.
template <class Unit, int vector>
__device__ void store(const ConvShape<int>& shape, const BlockTiles& tiles, const Origin& origin,
                      const float* sums, const float* x, const float* w, float* y,
                      const Epilogue<float>& epilogue) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int rows = min(tiles.rows, shape.p.value() - origin.p);
  const int columns = min(tiles.columns, shape.q.value() - origin.q);
  const bool zeros = shape.padded || shape.s.value() < Unit::width;
  for (int k = 0; k < Unit::filters; ++k) {
    const float bias = epilogue.bias_of<float>(k);
    for (int row = warp; row < rows; row += warps) {
      const int first = (k * tiles.rows + row) * tiles.columns, p = origin.p + row;
      float* const y_row =
          y + (origin.n * shape.y_step.n + k * shape.y_step.c + p * shape.y_step.h);
      for (int column = vector * lane; column < columns; column += 32 * vector) {
        const int q = origin.q + column;
        if (q < 0) continue;
        float values[vector];
        read_vectors<vector>(sums + place<Unit>(first + column), values);
        bool not_a_number = false;
#pragma unroll
        for (float& value : values) {
          not_a_number = not_a_number || value != value;
          value = epilogue.finish(value, bias);
        }
        write_row(y_row + q * shape.y_step.w, shape.y_step.w, columns - column, vector, values);
        // Zeros that stand for the padding, or fill up the filter, may have met Inf.
        if (zeros && not_a_number)
          for (int i = 0; i < min(vector, columns - column); ++i)
            do_over(shape, x, w, y, epilogue, origin.n, k, p, q + i);
      }
    }
  }
}

template <class Unit>
__global__ void __launch_bounds__(block_threads, 3)
    few_filters(const __grid_constant__ ConvShape<int> shape,
                const __grid_constant__ BlockTiles tiles, const float* x, const float* w, float* y,
                int y_vector, const __grid_constant__ Epilogue<float> epilogue) {
  float* const shared = reinterpret_cast<float*>(dynamic_shared());
  const Origin origin(tiles);
  const int thread = static_cast<int>(threadIdx.x);
  const int row = (thread >> tiles.column_bits) * Unit::rows;
  const int column = (thread & ((1 << tiles.column_bits) - 1)) * Unit::columns;
  Sums<Unit> sums;
  for (int c = 0; c < shape.group_c; ++c) {
    if (c > 0) __syncthreads();
    load_input<Unit>(shape, tiles, origin, x + (origin.n * shape.x_step.n + c * shape.x_step.c),
                     shared);
    load_filters<Unit>(shape, w + c * shape.w_step.c, shared + tiles.w_at);
    wait_for_copies();
    __syncthreads();
    sums.add_channel(shared, row * tiles.pitch + column, tiles.pitch, shared + tiles.w_at,
                     shape.r.value());
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < Unit::filters; ++k)
#pragma unroll
    for (int p = 0; p < Unit::rows; ++p)
#pragma unroll
      for (int q = 0; q < Unit::columns; q += 4) {
        const float(&of)[Unit::columns] = sums.of[k][p];
        const int to = (k * tiles.rows + row + p) * tiles.columns + column + q;
        *reinterpret_cast<float4*>(shared + place<Unit>(to)) = {of[q], of[q + 1], of[q + 2],
                                                                of[q + 3]};
      }
  __syncthreads();
  if (y_vector == 4)
    store<Unit, 4>(shape, tiles, origin, shared, x, w, y, epilogue);
  else
    store<Unit, 1>(shape, tiles, origin, shared, x, w, y, epilogue);
}

/// Collects what the cost model asks for.
template <class Unit>
FewFilters cost_features(const ConvProblem& problem, const Tiles& tiles) {
  return {.filters = Unit::filters,
          .width = Unit::width,
          .rows = Unit::rows,
          .columns = Unit::columns,
          .x_fours = Unit::x_fours,
          .w_pitch = Unit::w_pitch,
          .x_rows = tiles.x_rows,
          .x_pitch = tiles.pitch,
          .block_threads = block_threads,
          .tile_columns = tiles.columns,
          .aligned = tiles.aligned,
          .blocks = tiles.items(problem)};
}

/// Returns the tiles of least predicted work.
template <class Unit>
Tiles tiles_for(const ConvProblem& problem, bool aligned) {
  Tiles best{};
  double least = 0;
  for (int bits = 0; bits <= block_bits; ++bits) {
    const Tiles tiles = Tiles::make(problem, Unit{}, bits, aligned);
    const double work = few_filters_work(problem, cost_features<Unit>(problem, tiles)).instructions;
    const bool fits = tiles.bytes <= wanted_bytes, best_fits = best.bytes <= wanted_bytes;
    const bool better = fits != best_fits ? fits : fits ? work < least : tiles.bytes < best.bytes;
    if (bits == 0 || better) best = tiles, least = work;
  }
  return best;
}

bool rows_aligned(const ConvProblem& problem, const void* x) {
  return row_vector(x, problem.x_extents(), problem.x_strides, sizeof(float)) == 4;
}

/// Calls `f.operator()<Unit>()` with the Unit for the problem.
template <class F>
auto with_unit(const ConvProblem& problem, F&& f) {
  Filters::with(problem.k, [&]<int filters>() {
    Widths::with(Widths::at_least(problem.s),
                 [&]<int width>() { f.template operator()<Unit<filters, width>>(); });
  });
}

/// The tiles of a slice: one cut for an x that begins at a multiple of 16 bytes, one for any other.
struct SliceTiles {
  Tiles aligned{}, unaligned{};

  explicit SliceTiles(const ConvProblem& problem) {
    with_unit(problem, [&]<class Unit>() {
      aligned = tiles_for<Unit>(problem, rows_aligned(problem, nullptr));
      unaligned = tiles_for<Unit>(problem, false);
    });
  }
};
using BatchTiles = SlicePlans<SliceTiles>;

template <class Unit>
void launch_unit(const ConvLaunch& call, const SliceTiles& planned) {
  const ConvProblem& problem = call.problem;
  const Tiles& tiles = rows_aligned(problem, call.x) ? planned.aligned : planned.unaligned;
  const int y_vector =
      tiles.shift == 0 ? row_vector(call.y, problem.y_extents(), problem.y_strides, sizeof(float))
                       : 1;
  Launch(call.native_queue, blocks_for(static_cast<std::int64_t>(tiles.items(problem)), 1),
         block_threads, static_cast<std::size_t>(tiles.bytes))(
      few_filters<Unit>, ConvShape<int>(problem), BlockTiles(tiles),
      static_cast<const float*>(call.x), static_cast<const float*>(call.w),
      static_cast<float*>(call.y), y_vector, Epilogue<float>(call));
}

void launch(const ConvLaunch& whole, const KernelPlan* plan) {
  const auto& tiles = planned_value<BatchTiles>(plan);
  for_each_slice(whole, tiles, [](const ConvLaunch& call, const SliceTiles& of_slice) {
    with_unit(call.problem, [&]<class Unit>() { launch_unit<Unit>(call, of_slice); });
  });
}

Support supports(const ConvProblem& problem) {
  if (const Support usual = supports_dtypes_in_slices({DType::f32}, problem); !usual) return usual;
  const auto refused = [](std::int64_t value, const std::string& what) {
    return Support{Reason::geometry, std::to_string(value) + what};
  };
  if (problem.groups != 1) return refused(problem.groups, " groups; expected 1");
  if (problem.k > max_filters)
    return refused(problem.k, " filters; expected at most " + std::to_string(max_filters));
  if (problem.s > widest)
    return refused(problem.s, " columns of the filter; expected at most " + std::to_string(widest));
  // A stride to no second output, and a dilation of one tap, move nothing and may be any number.
  for (const auto& [outputs, stride] :
       {std::pair{problem.p(), problem.stride.h}, std::pair{problem.q(), problem.stride.w}})
    if (outputs > 1 && stride != 1) return refused(stride, " as the stride; expected 1");
  for (const auto& [taps, dilation] :
       {std::pair{problem.r, problem.dilation.h}, std::pair{problem.s, problem.dilation.w}})
    if (taps > 1 && dilation != 1) return refused(dilation, " as the dilation; expected 1");
  return {};
}

PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports(problem)};
  if (!result.support) return result;
  with_unit(problem, [&]<class Unit>() {
    const Tiles tiles = tiles_for<Unit>(problem, rows_aligned(problem, nullptr));
    result.support = fits_shared_memory(tiles.bytes, device);
    const int y_vector = tiles.shift == 0 ? row_vector(nullptr, problem.y_extents(),
                                                       problem.y_strides, sizeof(float))
                                          : 1;
    result.estimate_seconds =
        few_filters_seconds(problem, device, cost_features<Unit>(problem, tiles), y_vector);
  });
  if (!result.support) return {result.support};
  result.kernel =
      planned(BatchTiles(problem, [](const ConvProblem& slice) { return SliceTiles(slice); }));
  return result;
}

}  // namespace

extern const ConvAlgorithm few_filters_fp32{
    .name = "cuda.conv.few_filters.fp32",
    .numerics = {.operand = Operand::fp32,
                 .accumulator = Accumulator::fp32_fma,
                 .reproducible = true,
                 .invariant = true},
    .plan = plan,
    .launch = launch,
};

}  // namespace plumb::cuda
