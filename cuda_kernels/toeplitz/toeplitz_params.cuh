// What the kernel of Toeplitz matrices is told, its shared memory, and the order of its work.
#pragma once

#include <climits>
#include <cstdint>

#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/fields/field_load.cuh"
#include "cuda_kernels/primitives/bulk_copy.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/toeplitz/toeplitz.hpp"
#include "cuda_kernels/toeplitz/toeplitz_warps.cuh"

namespace plumb::cuda {

/// Mistakes that tests plant in the kernel; `none` everywhere else.
enum class ToeplitzFault {
  none,
  wrong_wrap,    ///< a column beyond the image is taken from its neighbour
  lost_low,      ///< the product of the filter's high with the input's low parts is left out
  dropped_pass,  ///< the last pass is not added
  stale_scale,   ///< sums keep the scale of the pass before
  kept_small,    ///< sums of small operands are kept however small they are
  stale_plane,   ///< a pass's second plane is the first once more
};

/// What is met makes outputs be summed again by their definition.
enum ToeplitzFlags : int {
  toeplitz_met_range = 1,  ///< no scale fits: every output is summed again
  toeplitz_met_small = 2,  ///< values too small for their halves: small sums are summed again
};

inline constexpr int toeplitz_rows = 8 * toeplitz_groups;  ///< of a tile's outputs in rows
inline constexpr int toeplitz_columns = 64;                ///< and its columns
inline constexpr int toeplitz_line_columns = 512;          ///< of a segment of a row, in lines
inline constexpr int toeplitz_planes = 8;                  ///< of a tile, in planes

/// Where a line of a tile comes from. Where the row's elements are neighbours, a line begins at 16
/// aligned bytes, up to three elements before the first that is wanted.
struct ToeplitzLine {
  const float* x;  ///< of its element 0, which may lie before the image; null: the line is zeros
  int begin, end;  ///< the elements that lie in the image
};

struct ToeplitzParams {
  FieldView view;
  ToeplitzFilters filters;
  const float* x;
  const float* x_aligned;  ///< x, rounded to 16 bytes: where copies of nothing may point to
  const char* packed;      ///< a header and matrices for each filter
  const float* w;          ///< dense
  std::int64_t filter_bytes;
  int filter_stage_bytes, part_bytes, row_bytes;  ///< row_bytes: of core matrices in planes
  int lines, line, line_bytes, tile_bytes;
  int stages, filter_stages;
  Divisor<int> vectors, chunks;            ///< of 16 bytes, and of eight elements, in a line
  Divisor<int> tiles_w, tiles_v, tiles_u;  ///< in lines: segments of a row, rows, planes
  int tiles;                               ///< of a filter
  int units;                               ///< in lines: segments of all rows
  bool keeps_filters;

  /// Of an output.
  __device__ int terms() const { return view.c * view.u.taps * view.v.taps * view.w.taps; }
  /// Where the matrices of a pass lie in the filter.
  template <ToeplitzMode mode>
  __device__ std::int64_t matrices_at(int pass) const {
    if constexpr (mode == ToeplitzMode::planes)
      return std::int64_t{pass / filters.pairs} * part_bytes + pass % filters.pairs * 2 * row_bytes;
    return std::int64_t{pass} * part_bytes;
  }
};

/// The outputs of a tile in rows, of one of the segments of a tile in lines, or of a consumer's
/// half of a tile in planes: image, plane, row and column of the first.
struct ToeplitzOutputs {
  int n, u;
  std::int64_t v, w;

  template <ToeplitzMode mode>
  __device__ static ToeplitzOutputs of(const ToeplitzParams& params, int number) {
    constexpr bool planes = mode == ToeplitzMode::planes;
    const auto [above_w, w] = params.tiles_w.divide(planes ? number / 2 : number);
    const auto [above_v, v] = params.tiles_v.divide(above_w);
    const auto [n, u] = params.tiles_u.divide(above_v);
    if constexpr (planes)
      return {n, u * toeplitz_planes,
              std::int64_t{v} * toeplitz_plane_rows + number % 2 * toeplitz_groups,
              std::int64_t{w} * toeplitz_columns};
    constexpr bool rows = mode == ToeplitzMode::rows;
    return {n, u, std::int64_t{v} * (rows ? toeplitz_rows : 1),
            std::int64_t{w} * (rows ? toeplitz_columns : toeplitz_line_columns)};
  }
};

/// A pass: a channel, a plane and a part of the filter. In planes `t` is the first of the two
/// planes of the input, from the first that the tile's outputs meet.
struct ToeplitzPass {
  int c, t, row, column;

  template <ToeplitzMode mode>
  __device__ static ToeplitzPass of(const ToeplitzParams& params, int number) {
    const ToeplitzFilters& filters = params.filters;
    ToeplitzPass to{};
    if constexpr (mode == ToeplitzMode::planes) {
      to.t = number % filters.pairs * 2;
      number /= filters.pairs;
    }
    to.column = number % filters.column_parts * filters.columns;
    number /= filters.column_parts;
    to.row = number % filters.row_parts * filters.rows;
    number /= filters.row_parts;
    if constexpr (mode != ToeplitzMode::planes) {
      to.t = number % params.view.u.taps;
      number /= params.view.u.taps;
    }
    to.c = number;
    return to;
  }
};

/// What the scheduler tells producers of a stage's item.
struct ToeplitzLoad {
  const float* x;     ///< of an even tile, the first element that is wanted
  std::int64_t step;  ///< and how far its lines are apart
  std::int64_t jump;  ///< in planes: how much further the lines of the second plane lie
  int leads;          ///< of ToeplitzLeads
  bool is_there;      ///< false behind the last item
  bool first_pass;
  int half;
};

/// What producers tell consumers of a stage.
struct ToeplitzStage {
  int exponent;  ///< of the scale of the sums from now on
  int flags;
};

/// The last of the producers' warps is the scheduler, the others load and split input.
inline constexpr int toeplitz_loader_warps = toeplitz_loaders / 32;

/// Shared memory behind filters and tiles.
struct ToeplitzControl {
  Mbarrier planned[toeplitz_max_stages], full[toeplitz_max_stages], empty[toeplitz_max_stages];
  CopyBarrier filters_full[2];
  Mbarrier filters_empty[2];
  ToeplitzLoad loads[toeplitz_max_stages];
  ToeplitzStage stages[toeplitz_max_stages];
  /// Of each warp's part of a stage: no warp is still at one when another finds them for the next.
  unsigned most[toeplitz_max_stages][toeplitz_loader_warps];
  unsigned least[toeplitz_max_stages][toeplitz_loader_warps];
};
static_assert(sizeof(ToeplitzControl) <= toeplitz_control_bytes);

/// The elements at the beginning and at the end of lines that may lie beyond the image.
struct ToeplitzBeyond {
  int before, after, after_at;  ///< so many each, and the first of those at the end

  __device__ int count() const { return before + after; }
  __device__ int element(int i) const { return i < before ? i : i - before + after_at; }
  /// The logarithm of the lanes that look at a line.
  __device__ int lane_bits() const {
    const int all = count();
    return all <= 4 ? 2 : all <= 8 ? 3 : all <= 16 ? 4 : 5;
  }
};

/// A stage's table of lines, for a tile that is not even.
struct ToeplitzTable {
  ToeplitzLine lines[toeplitz_max_lines];
  std::int64_t firsts[toeplitz_max_lines];  ///< the image's columns of their elements 0
  /// How many elements of a line lie before the first that is wanted.
  signed char leads[toeplitz_max_lines];
  ToeplitzBeyond beyond;
};

static_assert(sizeof(ToeplitzTable) == toeplitz_table_bytes);

struct ToeplitzShared {
  char *filters, *tiles;
  ToeplitzControl* control;
  ToeplitzTable* tables;

  __device__ explicit ToeplitzShared(const ToeplitzParams& params) {
    filters = dynamic_shared();
    tiles = filters + params.filter_stages * params.filter_stage_bytes;
    control = reinterpret_cast<ToeplitzControl*>(tiles + params.stages * params.tile_bytes);
    tables =
        reinterpret_cast<ToeplitzTable*>(reinterpret_cast<char*>(control) + toeplitz_control_bytes);
  }
};

/// A place in a ring of stages, and the parity of its round.
struct ToeplitzRing {
  int stage = 0, parity = 0;
  __device__ void advance(int stages) {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

/// A block takes two tiles at a time, one for each consumer, and all passes of both by turns: a
/// stage of input is a pass of one of them. In planes it takes one tile, which both share.
template <ToeplitzMode mode>
struct ToeplitzItem {
  static constexpr bool shares = mode == ToeplitzMode::planes;
  int k = 0, pair = 0, pass = 0, half = 0;

  /// Returns the number of a tile of the block, of which there may be none.
  __device__ static int tile(int pair, int half) {
    const int number = shares ? pair : 2 * pair + half;
    return static_cast<int>(blockIdx.x) + number * static_cast<int>(gridDim.x);
  }
  /// Returns the number of the outputs of a consumer (ToeplitzOutputs).
  __device__ static int outputs(int tile, int half) { return shares ? 2 * tile + half : tile; }
  __device__ bool is_there(const ToeplitzParams& params) const { return k < params.view.k; }
  /// Whether filters are loaded with the item.
  __device__ bool begins_filters(const ToeplitzParams& params) const {
    return half == 0 && (!params.keeps_filters || (pair == 0 && pass == 0));
  }
  __device__ void advance(const ToeplitzParams& params, int passes) {
    if (!shares && half == 0 && tile(pair, 1) < params.tiles) {
      half = 1;
      return;
    }
    half = 0;
    if (++pass < passes) return;
    pass = 0;
    if (tile(++pair, 0) < params.tiles) return;
    pair = 0;
    ++k;
  }
};

}  // namespace plumb::cuda
