// Depthwise backward weights with lanes along a row: boxes of planes of x and dy come to shared
// memory with zeros around them, from where threads read vectors of four columns.
#pragma once

#include "cuda_kernels/depthwise_weights/depthwise_weights_sums.cuh"
#include "cuda_kernels/primitives/async_copy.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda::depthwise_weights {

/// Reads `count` values, whole vectors of 16 bytes, from an address that is a multiple of 16 bytes.
template <int count>
__device__ void read_vectors(float (&to)[count], const float* from) {
#pragma unroll
  for (int i = 0; i < count; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(from + i);
    to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
  }
}
template <int count>
__device__ void read_vectors(double (&to)[count], const double* from) {
#pragma unroll
  for (int i = 0; i < count; i += 2) {
    const double2 two = *reinterpret_cast<const double2*>(from + i);
    to[i] = two.x, to[i + 1] = two.y;
  }
}

/// The rows and columns that a box has of each plane, of which some lie in the tensor: the others
/// are zeros.
struct Box {
  int rows, first_row, last_row;  ///< those from first to before last lie in the tensor
  int columns, first_column, last_column;
  int origin, row_step, column_step;  ///< from a plane's begin to row and column zero; in elements
  int plane_rows, pitch, lane_bits;   ///< in shared memory; threads along a row
};

/// Copies a box of all planes of a unit. Warps share out the planes, and where these are few their
/// rows. `plane(i, at)` says where plane i begins, and returns whether there is one.
template <class Real, class Stored, class Plane>
__device__ void load_box(Real* to, const Stored* from, const Box& box, int planes,
                         const Plane& plane) {
  constexpr bool widens = !std::is_same_v<Real, Stored>;
  constexpr int batch = widens ? 4 : 1, warps = depthwise_weights_threads / 32;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  const int of_plane = planes >= warps ? 1 : planes >= warps / 2 ? 2 : warps;
  const int of_row = 1 << box.lane_bits, rows_at_once = 32 >> box.lane_bits;
  const int own_row = warp % of_plane * rows_at_once + (thread % 32 >> box.lane_bits);
  const int next_row = of_plane * rows_at_once;
  for (int i = warp / of_plane; i < planes; i += warps / of_plane) {
    int begin = 0;
    const bool any = plane(i, begin);
    Real* const to_plane = to + i * box.plane_rows * box.pitch;
    for (int column = thread & (of_row - 1); column < box.columns; column += of_row) {
      const bool inside = any && column >= box.first_column && column < box.last_column;
      const int at = begin + box.origin + column * box.column_step;
      for (int row = own_row; row < box.rows; row += batch * next_row) {
        Stored values[batch];
#pragma unroll
        for (int j = 0; j < batch; ++j) {
          const int one = row + j * next_row;
          const bool valid = inside && one >= box.first_row && one < box.last_row;
          const Stored* const source = from + (valid ? at + one * box.row_step : 0);
          if constexpr (widens)
            values[j] = valid ? *source : Stored{};
          else
            copy_bytes_async<sizeof(Real)>(to_plane + one * box.pitch + column, source, valid);
        }
        if constexpr (widens) {
#pragma unroll
          for (int j = 0; j < batch; ++j)
            if (row + j * next_row < box.rows)
              to_plane[(row + j * next_row) * box.pitch + column] = convert<Real>(values[j]);
        }
      }
    }
  }
}

/// Numbers i from `begin` for which 0 <= step i + first < extent.
__device__ inline void clip(int first, int step, int extent, int& begin, int& end) {
  const int from = floor_div(step - 1 - first, step), to = floor_div(extent - 1 - first, step) + 1;
  begin = from > 0 ? from : 0;
  end = to < end ? to : end;
}

/// What a thread sums of a unit: lines and columns in steps.
template <class Sums, int lines>
struct UnitBoxes {
  static constexpr int stride = Sums::x_rows / lines;
  static constexpr int room = (Sums::window + 3) / 4 * 4;
  Box x, y;
  int steps_h, steps_w;

  __device__ UnitBoxes(const Params& params, const Unit& unit) {
    const DepthwiseWeightsPlan& plan = params.plan;
    const DepthwiseWeightsCut& cut = plan.cut;
    steps_h = unit.lines.steps(lines), steps_w = unit.columns.steps(4);
    const int first_row = stride * unit.lines.begin, first_column = stride * unit.columns.begin;
    const int h = plan.h.step * first_row + unit.lines.start;
    const int w = plan.w.step * first_column + unit.columns.start;
    x.rows = steps_h * Sums::x_rows, x.columns = stride * 4 * (steps_w - 1) + room;
    x.last_row = stride * unit.lines.end - first_row;
    clip(h, plan.h.step, plan.h.extent, x.first_row, x.last_row);
    x.last_column = x.columns;
    clip(w, plan.w.step, plan.w.extent, x.first_column, x.last_column);
    x.origin = h * params.x_h + w * params.x_w;
    x.row_step = plan.h.step * params.x_h, x.column_step = plan.w.step * params.x_w;
    x.plane_rows = cut.x_rows, x.pitch = cut.x_pitch, x.lane_bits = params.lanes_x_bits;

    const int first_p = unit.lines.begin - (Sums::taps_of_line - 1);
    y.rows = steps_h * lines + Sums::taps_of_line - 1, y.columns = 4 * steps_w;
    y.first_row = first_p < 0 ? -first_p : 0;
    y.last_row = plan.h.of_phase(unit.phase_h) - first_p;
    y.first_column = 0, y.last_column = unit.columns.end - unit.columns.begin;
    y.origin = (unit.phase_h + plan.h.dilation * first_p) * params.y_p +
               (unit.phase_w + plan.w.dilation * unit.columns.begin) * params.y_q;
    y.row_step = plan.h.dilation * params.y_p, y.column_step = plan.w.dilation * params.y_q;
    y.plane_rows = cut.y_rows, y.pitch = cut.y_pitch, y.lane_bits = params.lanes_y_bits;
  }
};

/// Steps of a unit that one thread takes: every so manyth, along the columns, the lines, the
/// images.
struct StepWalk {
  int column, line, image;
  int by_column, by_line, by_image, steps_h, steps_w;

  __device__ StepWalk(int first, int every, int of_h, int of_w) : steps_h(of_h), steps_w(of_w) {
    line = first / of_w, column = first - line * of_w;
    image = line / of_h, line -= image * of_h;
    by_line = every / of_w, by_column = every - by_line * of_w;
    by_image = by_line / of_h, by_line -= by_image * of_h;
  }
  __device__ void advance() {
    column += by_column;
    const int over = column >= steps_w ? 1 : 0;
    column -= over * steps_w;
    line += by_line + over;
    const int above = line >= steps_h ? 1 : 0;
    line -= above * steps_h;
    image += by_image + above;
  }
};

template <class Real, class Stored, int rows, int columns, int stride>
__global__ void __launch_bounds__(depthwise_weights_threads,
                                  blocks_at_once<DepthwiseWeightsKernel::planes, Real, rows>)
    sum_planes(const __grid_constant__ Params params, const Stored* x, const Stored* dy,
               Real* parts) {
  constexpr DepthwiseWeightsStep step =
      depthwise_weights_step(DepthwiseWeightsKernel::planes, {rows, columns, stride}, sizeof(Real));
  using Sums = TapSums<Real, rows, columns, stride, step.lines, step.outputs>;
  using Boxes = UnitBoxes<Sums, step.lines>;
  const DepthwiseWeightsPlan& plan = params.plan;
  const DepthwiseWeightsCut& cut = plan.cut;
  const BlockShare share(params, blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int of_block = thread / cut.members, member = thread - of_block * cut.members;
  Real* const x_stage = reinterpret_cast<Real*>(dynamic_shared());
  Real* const y_stage = x_stage + cut.x_elements();

  Sums sums;
  for (std::int64_t number = share.begin; number < share.end; ++number) {
    const Unit unit(params, share, number, step.lines, step.outputs);
    if (unit.empty()) continue;  // for all threads of the block
    const Boxes boxes(params, unit);
    // A plane of the stage is that of an image and, in it, of a filter.
    const auto plane = [&](int i, int& at, bool of_x) {
      const auto [image, k] = params.block_k.divide(i);
      if (unit.image + image >= plan.images) return false;
      const Planes planes(params, share, unit.image + image, share.k + k);
      at = of_x ? planes.x : planes.y;
      return planes.valid;
    };
    const int planes = cut.box_n * cut.block_k;
    load_box(x_stage, x, boxes.x, planes, [&](int i, int& at) { return plane(i, at, true); });
    load_box(y_stage, dy, boxes.y, planes, [&](int i, int& at) { return plane(i, at, false); });
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
    for (StepWalk walk(member, cut.members, boxes.steps_h, boxes.steps_w); walk.image < cut.box_n;
         walk.advance()) {
      const int of_stage = walk.image * cut.block_k + of_block;
      const Real* const x_from = x_stage +
                                 (of_stage * cut.x_rows + walk.line * Sums::x_rows) * cut.x_pitch +
                                 walk.column * 4 * stride;
      const Real* const y_from = y_stage +
                                 (of_stage * cut.y_rows + walk.line * step.lines) * cut.y_pitch +
                                 walk.column * 4;
      sums.template add<Real, Boxes::room, false>(
          [&](int i, Real(&to)[Boxes::room]) { read_vectors(to, x_from + i * cut.x_pitch); },
          [&](int i, Real(&to)[step.outputs]) {
            read_vectors(to, y_from + i * cut.y_pitch);
            return true;
          });
    }
    __syncthreads();
  }
  const Team team{cut.block_k, cut.members, cut.members, 1};
  write_part<Real, rows, columns>(params, share, team, sums, x_stage, parts);
}

}  // namespace plumb::cuda::depthwise_weights
