// Convolutions of fields: few channels and filters in one to three dimensions, with what lies
// beyond the border said for each axis. Here are the problem and its plan, which is made on the
// host before a launch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "plumb/types.hpp"

namespace plumb {
struct ConvProblem;
struct Support;
}  // namespace plumb

namespace plumb::cuda {

/// y(n, k, ...) = sum over c and the taps of x(n, c, ...) w(k, c, ...), stride 1, dilation 1. The
/// axes are depth, height, width; those that a problem of lower rank lacks have extent 1. Strides
/// are in elements and may be any numbers.
struct FieldProblem {
  std::int64_t n = 1, c = 1, k = 1;
  std::array<std::int64_t, 3> extent{1, 1, 1}, filter{1, 1, 1}, before{}, after{};
  std::array<Boundary, 3> boundary{};
  std::array<std::int64_t, 5> x_stride{}, w_stride{}, y_stride{};  ///< ncdhw, kctrs, nkzpq

  std::int64_t outputs(int axis) const {
    return before[axis] + extent[axis] + after[axis] - filter[axis] + 1;
  }
};

/// Returns a convolution of one group, stride 1 and dilation 1 as a problem of fields.
FieldProblem field_problem(const ConvProblem& problem);

/// The most channels and filters of fields.
struct FieldLimits {
  std::int64_t channels, filters;
};
/// Says whether a convolution of tensors stored as `dtype` is one of fields: one group of few
/// channels and filters, stride 1, dilation 1.
Support supports_fields(const ConvProblem& problem, DType dtype, const FieldLimits& limits);

/// An axis as kernels see it.
struct FieldAxis {
  std::int64_t extent, outputs, before;
  std::int64_t x_step, y_step, w_step;
  int taps;
  Boundary boundary;
};

/// The problem by the roles of its axes: u is the slowest axis that the filters have taps on, w
/// the width, v the one that is left. An axis without taps may also be the batch.
struct FieldView {
  FieldAxis u, v, w;
  std::int64_t n, x_n, y_n;
  std::int64_t x_c, w_c, w_k, y_k;
  int c, k;
};

/// The kernels: `tile` has the whole input of its outputs in shared memory, `line` slides along w.
/// `columns` and `queue` go along u with the sums of all outputs that a plane adds to, `columns`
/// without shared memory, `queue` with it; `toeplitz` is for doubles on tensor cores.
enum class FieldKernel { tile, line, columns, queue, toeplitz };

/// What a kernel is compiled for: the most threads of a block, and how many such blocks the
/// registers of a multiprocessor hold.
struct FieldResidence {
  int threads, blocks;
};
inline constexpr FieldResidence tile_residence{128, 4};
/// Filters that a block of the line may be compiled for, and its vectors of outputs for each: about
/// as many sums with all.
inline constexpr int most_line_filters = 4;
constexpr int line_vectors(int filters) { return filters == 1 ? 8 : filters == 2 ? 4 : 2; }
constexpr FieldResidence line_residence(int element_bytes, int filters) {
  if (filters == 1) return tile_residence;
  return {128, element_bytes == 4 && filters == 3 ? 6 : 5};
}
/// Whether columns are compiled for so many outputs of a thread in a plane. With four, sums take so
/// few registers that half as many warps again are there to hide what reads take; eight need half
/// the weights, and are left where a filter is so small that memory sets the time.
constexpr bool has_column_outputs(int element_bytes, int taps_u, bool by_rows, int outputs) {
  if (taps_u == 9 && by_rows) return false;  // the queue is faster
  if (taps_u == 3 && !by_rows) return outputs == 8;
  return outputs == 4 || (outputs == 8 && element_bytes / 4 * taps_u * 8 <= (by_rows ? 48 : 80));
}
constexpr FieldResidence column_residence(int element_bytes, int taps_u, bool by_rows,
                                          int outputs) {
  const bool wide = element_bytes == 8;
  if (outputs == 8) {
    if (taps_u == 3) return {128, by_rows ? (wide ? 3 : 4) : (wide ? 4 : 6)};
    return {128, !wide && (taps_u == 5 || taps_u == 7) ? 4 : 3};
  }
  if (by_rows) return {128, taps_u == 3 ? (wide ? 4 : 6) : (wide ? 3 : 4)};
  return {128, wide ? (taps_u == 5 ? 4 : 3) : (taps_u == 9 ? 4 : taps_u == 7 ? 5 : 6)};
}

/// The taps along w that columns are compiled for: as many as along u, where the sums of a plane
/// are not too many to write out. For others it is 0.
constexpr int column_taps(int taps_u, int taps_v, int taps_w, int outputs) {
  return taps_w == taps_u && taps_u * taps_v * taps_w * outputs <= 1000 ? taps_w : 0;
}

/// What a thread of the queue may have: for so many taps along u, vectors of outputs in a row, rows
/// and filters. With `kept_rows` the filter has one channel and so many taps along v, and stays in
/// registers. Taps along w are as many as along u where `taps_w` is 0.
struct QueueCut {
  int taps, vectors, rows, filters, kept_rows = 0, taps_w = 0;

  constexpr int along_w() const { return taps_w > 0 ? taps_w : taps; }
  bool operator==(const QueueCut&) const = default;
};
inline constexpr QueueCut queue_cuts[] = {
    {3, 1, 4, 1, 3}, {3, 1, 2, 1, 3}, {3, 2, 1, 1, 1},   {3, 2, 1, 1}, {3, 1, 2, 2},
    {3, 1, 2, 3},    {3, 1, 1, 4},    {3, 1, 2, 4},      {5, 1, 4, 1}, {5, 2, 1, 1, 1},
    {5, 2, 1, 1},    {5, 1, 2, 1},    {5, 1, 1, 3},      {5, 1, 1, 4}, {7, 1, 3, 1},
    {7, 1, 2, 1},    {7, 2, 1, 1, 1}, {7, 2, 1, 1},      {9, 2, 1, 1}, {9, 1, 2, 1},
    {9, 1, 1, 1},    {11, 2, 1, 1},   {3, 1, 4, 1, 0, 7}};
/// Whether the queue is compiled for a cut: a filter that is kept leaves registers for sums.
constexpr bool is_compiled(const QueueCut& cut, int element_bytes) {
  const int kept = cut.kept_rows * cut.taps * cut.along_w() * element_bytes / 4;
  const int sums = cut.taps * cut.vectors * cut.rows * cut.filters * 4;
  return kept == 0 || kept + sums <= 96;
}
/// Columns that the queue's boxes have in front: the copy engine's boxes begin at multiples of 16
/// bytes (tiled_map.hpp), and the queue is compiled for half the taps before the first output, or
/// vectors more or less.
constexpr int queue_lead(int taps, int element_bytes) {
  const int vector = 16 / element_bytes;
  return (vector - taps / 2 % vector) % vector;
}
/// Vectors from row to row: those of 32 threads, and what the lead and the taps take besides. It is
/// the same where there are fewer threads.
constexpr int queue_pitch(int taps, int element_bytes) {
  const int vector = 16 / element_bytes;
  return 32 + (queue_lead(taps, element_bytes) + taps - 1 + vector - 1) / vector;
}
/// The fewer sums and weights, the fewer registers, and the more warps.
constexpr FieldResidence queue_residence(const QueueCut& cut) {
  const int registers = cut.taps * cut.vectors * cut.rows * cut.filters * 4;
  // A row of the filter that is not kept meets the input of all rows of outputs.
  const int inputs = cut.kept_rows > 0 ? 0 : cut.vectors * cut.rows * (cut.along_w() + 4);
  if (registers >= 72 || inputs > 40 || (cut.kept_rows == 1 && cut.taps > 3)) return {128, 3};
  return registers > 40 || cut.kept_rows > 1 ? FieldResidence{256, 2} : FieldResidence{128, 5};
}

/// What the Toeplitz kernel is compiled for: tiles of eight outputs in a line, of rows and of one
/// row.
inline constexpr int toeplitz_blocks = 8, toeplitz_blocks_in_row = 4;
constexpr FieldResidence toeplitz_residence(int blocks) {
  return blocks == toeplitz_blocks ? FieldResidence{128, 3} : FieldResidence{128, 4};
}

/// How a problem is cut. Threads, and outputs of a block, are powers of two in v and w.
struct FieldPlan {
  FieldKernel kernel{};
  FieldView view{};
  int element_bytes = 0;
  bool in_order = false;  ///< of the tile: its loops are in the specified order
  int threads_w = 0, threads_v = 0, threads_u = 0;
  int tile_u = 0, tile_v = 0, tile_w = 0;  ///< outputs of a block
  int outputs = 0;                         ///< of a thread of columns, in a plane
  int filters = 1;                         ///< of a block
  int channels = 1;                        ///< that are loaded together
  QueueCut queue{};                        ///< of the queue alone
  bool boxes = false;                      ///< whether the copy engine loads the queue's planes
  int pairs = 0;                           ///< k8 tiles that a row of the Toeplitz matrix has
  int planes = 0;                          ///< planes of input in one stage
  int rows = 0;                            ///< of the input in a plane
  int columns = 0;                         ///< of the input in a row
  int front = 0;          ///< columns in front of the first tap, which no tap meets
  int row_vectors = 0;    ///< vectors of 16 bytes in a row
  int pitch = 0;          ///< vectors from row to row
  int part_bytes = 0;     ///< of a stage of the queue, for one vector of each thread
  int channel_bytes = 0;  ///< of a stage, for one channel
  int row_threads = 0;    ///< threads that load a row together
  int stage_bytes = 0, filter_bytes = 0, scratch_bytes = 0;  ///< in shared memory, in this order
  int line_bytes = 0, column_bytes = 0, shared_bytes = 0;    ///< tables of the input, and the sum
  int patch_bytes = 0;  ///< of the list that boxes have in the place of both tables
  double clocks = 0;    ///< predicted, of all multiprocessors together

  int threads() const { return threads_w * threads_v * threads_u; }
};

/// Says whether the plan's kernel sums each output in one chain from +0, in the order c, t, r, s,
/// and adds the bias to the sum, for filters without Inf and NaN, as for others it does by
/// definition. Looks at kernel, view and `in_order` alone.
bool sums_in_order(const FieldPlan& plan);

/// What a caller may fix in a plan, to compare; zero and empty leave it to the planner.
struct FieldChoice {
  std::optional<FieldKernel> kernel;
  bool in_order = false;  ///< kernels that sum in the specified order alone
  int threads = 0, threads_w = 0, threads_v = 0, tile_u = 0, outputs = 0;
  int queue_cut = 0;            ///< one more than its index in queue_cuts
  int filters = 0;              ///< of a block of the line
  int channels = 0;             ///< that the queue's boxes load together
  std::optional<bool> boxes{};  ///< whether the copy engine may load the queue
};

/// What the planner knows of a device.
struct FieldMachine {
  int units = 1;              ///< multiprocessors
  double bytes_in_clock = 0;  ///< of memory, nominal, for each multiprocessor
};

/// Returns the plan for elements of 4 or 8 bytes, or nothing where no tile fits shared memory.
std::optional<FieldPlan> plan_fields(const FieldProblem& problem, int element_bytes,
                                     const FieldMachine& machine, const FieldChoice& choice = {});

/// The tensors of a call, all of float or all of double. y = act(sum + bias + y), the last only
/// where `accumulate` is set.
struct FieldCall {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* bias = nullptr;  ///< K elements, or null
  void* y = nullptr;
  bool relu = false, accumulate = false;
  bool vectors = true;  ///< whether rows are read in vectors where they are aligned
};

void launch_fields_f32(const FieldPlan& plan, const FieldCall& call, void* stream);
void launch_fields_f64(const FieldPlan& plan, const FieldCall& call, void* stream);

}  // namespace plumb::cuda
