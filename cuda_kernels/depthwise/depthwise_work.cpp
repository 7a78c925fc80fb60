// What the threads of depthwise_planes.cuh and depthwise_channels.cuh issue and wait for, counted
// in their loops as they stand.
#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/depthwise.hpp"
#include "cuda_kernels/depthwise/depthwise.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"

namespace plumb::cuda {
namespace {

constexpr double lanes = 32, line_bytes = 128;

double number(std::int64_t value) { return static_cast<double>(value); }

/// The rows of input that a thread goes through for so many rows of outputs.
double rows_under(const ConvProblem& p, double rows) {
  const double stride = p.p() > 1 ? number(p.stride.h) : 1;
  return (rows - 1) * stride + number(p.r - 1) * number(p.dilation.h) + 1;
}

/// Blocks that registers and shared memory leave room for on a multiprocessor.
double resident(const DepthwiseCut& cut, int of_most_threads) {
  constexpr double shared_of_unit = 228 << 10, shared_of_block = 1 << 10;
  const double by_registers =
      std::floor(static_cast<double>(of_most_threads) * depthwise_threads / cut.threads());
  const double by_shared = std::floor(shared_of_unit / (cut.shared_bytes + shared_of_block));
  return std::clamp(std::min(by_registers, by_shared), 1.0, 32.0);
}

}  // namespace

DepthwiseWork work_of_planes(const ConvProblem& p, const DepthwisePlan& plan) {
  const DepthwiseCut& cut = plan.cut;
  const int bytes = static_cast<int>(size_in_bytes(p.dtype));
  constexpr double groups = 2, of_group = 4, rows = 4, outputs = groups * of_group * rows;
  const std::int64_t images = plan.rows_are_images ? 1 : p.n;
  const std::int64_t all_rows = plan.rows_are_images ? p.n : p.p();
  const double threads = cut.threads(), chunk = cut.form.chunk;
  const double chunks = number(ceil_div(p.s, cut.form.chunk));
  DepthwiseWork work{.blocks = number(ceil_div(p.q(), cut.lanes_w * 8)) *
                               number(ceil_div(all_rows, cut.lanes_u * 4)) *
                               std::ceil(number(p.k) * number(p.z()) * number(images) / cut.planes),
                     .resident = resident(cut, bytes == 8 ? 2 : 4),
                     .warps = threads / lanes,
                     .fmas = number(p.t * p.r * p.s) * outputs,
                     .in_turn = true,
                     .is_double = bytes == 8};
  // A tile of input for each tap along the depth, some lanes a row, by copies that are waited for
  // together, or in fours where they are widened on their way.
  const double of_row = number(ceil_div(cut.columns, cut.row_lanes));
  const double loaded_rows =
      number(p.t) * std::ceil(cut.planes * cut.rows * cut.row_lanes / threads);
  const double loads = loaded_rows * of_row;
  work.memory_waits = bytes == 2 ? loaded_rows * std::ceil(of_row / 4) : 2 * number(p.t);
  if (bytes == 2) work.converted = loads;
  // Weights, each by divisions of numbers that are not known before.
  const double weights = std::ceil(cut.planes * number(p.t * p.r * p.s) / threads);
  work.filter_waits = weights;
  // Windows are read in vectors of four, or one by one where a stride or a dilation parts them.
  const double windows = number(p.t) * rows_under(p, rows) * chunks;
  const double taken = number(p.t * p.r) * rows * chunks;
  const bool vectors = cut.form.stride != 0;
  const double reads = vectors ? groups * 2 : groups * of_group;
  work.instructions = 300 + 60 * loaded_rows + 12 * loads + 100 * weights +
                      windows * (3 * reads + 20) + taken * (chunk + 4) + 10 * outputs;
  work.lines = windows * reads * (vectors ? 4 : 1) * (bytes == 8 ? 2 : 1) + taken * 2;
  // Lanes that load a row together find it in one piece, or each its own line.
  const double apart = static_cast<double>(std::abs(p.x_strides[p.x_strides.rank() - 1])) * bytes;
  const double at_once = std::min(cut.row_lanes, cut.columns);
  work.lines += loads * lanes / cut.row_lanes *
                std::clamp(at_once * (p.w > 1 ? apart : bytes) / line_bytes, 1.0, at_once);
  const double y_apart = static_cast<double>(std::abs(p.y_strides[p.y_strides.rank() - 1])) * bytes;
  work.lines += outputs * std::clamp(lanes * of_group * (p.q() > 1 ? y_apart : bytes) / line_bytes,
                                     1.0, lanes);
  return work;
}

DepthwiseWork work_of_channels(const ConvProblem& p, const DepthwisePlan& plan,
                               const DepthwiseCut& cut) {
  const int bytes = static_cast<int>(size_in_bytes(p.dtype));
  const int rows = depthwise_rows(DepthwiseKernel::channels, cut.form, bytes);
  const int columns = depthwise_columns(DepthwiseKernel::channels, cut.form, bytes);
  const double width = cut.form.width, chunk = cut.form.chunk;
  const double outputs = rows * columns * width;
  const double stages = number(p.t) * number(ceil_div(p.s, cut.form.chunk));
  const std::int64_t images = plan.rows_are_images ? 1 : p.n;
  const std::int64_t all_rows = plan.rows_are_images ? p.n : p.p();
  DepthwiseWork work{.blocks = number(ceil_div(p.k, cut.lanes_c * cut.form.width)) *
                               number(ceil_div(p.q(), cut.lanes_w * columns)) *
                               number(ceil_div(all_rows, cut.lanes_u * rows)) * number(p.z()) *
                               number(images),
                     .resident = resident(cut, width > 1 ? 3 : 4),
                     .warps = cut.threads() / lanes,
                     .fmas = number(p.t * p.r * p.s) * outputs,
                     .in_turn = true,
                     .is_double = bytes == 8};
  // A stage of weights after the other, between barriers.
  const double weights = std::ceil(number(p.r) * chunk * cut.lanes_c * width / cut.threads());
  work.filter_waits = stages * weights;
  // Each row of a stage is read when it is needed.
  const double windows = stages * rows_under(p, rows);
  const double reads = columns - 1 + chunk;
  work.memory_waits = windows;
  if (bytes == 2) work.converted = windows * reads * width;
  const double taken = stages * number(p.r) * rows;
  work.instructions = 300 + 25 * stages * weights + windows * (reads * (3 + width) + 30) +
                      taken * (2 * chunk + 4) + 6 * outputs;
  // Lanes along the channels share lines where channels lie side by side; the others are in other
  // columns.
  const bool side_by_side = channels_in_vectors(p, 1);
  const double of_columns = lanes / std::min<double>(cut.lanes_c, lanes);
  const double apart = static_cast<double>(std::abs(p.x_strides[p.x_strides.rank() - 1])) * bytes;
  const double lines =
      side_by_side ? of_columns * std::max(cut.lanes_c * width * bytes / line_bytes, 1.0)
                   : lanes / of_columns * std::max(of_columns * columns * apart / line_bytes, 1.0);
  const double of_read = std::clamp(lines, 1.0, lanes);
  work.lines = windows * reads * of_read + rows * columns * of_read + taken * chunk;
  return work;
}

}  // namespace plumb::cuda
