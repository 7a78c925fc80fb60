// Depthwise backward weights with lanes along the channels: neighbouring lanes read neighbours of x
// and dy as they lie, and all else is the same for them. What several threads or steps read comes
// from L1.
#pragma once

#include "cuda_kernels/depthwise_weights/depthwise_weights_sums.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda::depthwise_weights {

/// Reads elements `step` bytes apart, those that `which` has a bit of; zeros are the others. Away
/// from the border, which is the same for the lanes of a warp, there are no conditions.
template <class Stored, int count>
__device__ void read_row(Raw<Stored> (&to)[count], const Stored* from, int step, unsigned which) {
  // A product of 64 bits and a sum are one instruction.
  const auto at = [&](int i) {
    return reinterpret_cast<const Stored*>(reinterpret_cast<const char*>(from) +
                                           std::int64_t{step} * i);
  };
  if (which == (1u << count) - 1) {
#pragma unroll
    for (int i = 0; i < count; ++i) to[i] = read_raw(at(i));
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      to[i] = Raw<Stored>{};
      if (which & 1u << i) to[i] = read_raw(at(i));
    }
  }
}

template <class Real, class Stored, int rows, int columns, int stride>
__global__ void __launch_bounds__(depthwise_weights_threads,
                                  blocks_at_once<DepthwiseWeightsKernel::channels, Real, rows>)
    sum_channels(const __grid_constant__ Params params, const Stored* x, const Stored* dy,
                 Real* parts) {
  constexpr DepthwiseWeightsStep step = depthwise_weights_step(
      DepthwiseWeightsKernel::channels, {rows, columns, stride}, sizeof(Real));
  using Sums = TapSums<Real, rows, columns, stride, step.lines, step.outputs>;
  const DepthwiseWeightsPlan& plan = params.plan;
  const BlockShare share(params, blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int member = thread / plan.cut.block_k, lane = thread - member * plan.cut.block_k;
  constexpr int bytes = static_cast<int>(sizeof(Stored));
  const int x_step = bytes * plan.w.step * params.x_w,
            y_step = bytes * plan.w.dilation * params.y_q;

  Sums sums;
  for (std::int64_t number = share.begin + member; number < share.end; number += plan.cut.members) {
    const Unit unit(params, share, number, step.lines, step.outputs);
    const Planes planes(params, share, unit.image, share.k + lane);
    if (unit.empty() || !planes.valid) continue;
    // A strip has one step of columns.
    const int first_column = stride * unit.columns.begin;
    const int first_w = plan.w.step * first_column + unit.columns.start;
    const int x_first = planes.x + first_w * params.x_w;
    const int y_first =
        planes.y + (unit.phase_w + plan.w.dilation * unit.columns.begin) * params.y_q;
    const int of_phase_h = plan.h.of_phase(unit.phase_h);
    // Which columns there are, a bit each.
    unsigned x_columns = 0;
#pragma unroll
    for (int column = 0; column < Sums::window; ++column) {
      const int w = first_w + plan.w.step * column;
      if (w >= 0 && w < plan.w.extent) x_columns |= 1u << column;
    }
    const int left = unit.columns.end - unit.columns.begin;
    const unsigned y_columns = (1u << (left < step.outputs ? left : step.outputs)) - 1;
    for (int line = unit.lines.begin; line < unit.lines.end; line += step.lines) {
      sums.template add<Stored, Sums::window, true>(
          [&](int i, Raw<Stored>(&to)[Sums::window]) {
            const int row = stride * line + i;
            const int h = plan.h.step * row + unit.lines.start;
            const bool inside = row < stride * unit.lines.end && h >= 0 && h < plan.h.extent;
            read_row<Stored>(to, x + (h * params.x_h + x_first), x_step, inside ? x_columns : 0);
          },
          [&](int i, Raw<Stored>(&to)[step.outputs]) {
            const int row = line + i - (Sums::taps_of_line - 1);
            if (row < 0 || row >= of_phase_h) return false;
            read_row<Stored>(to,
                             dy + ((unit.phase_h + plan.h.dilation * row) * params.y_p + y_first),
                             y_step, y_columns);
            return true;
          });
    }
  }
  const Team team{plan.cut.block_k, plan.cut.members, 1, plan.cut.block_k};
  write_part<Real, rows, columns>(params, share, team, sums,
                                  reinterpret_cast<Real*>(dynamic_shared()), parts);
}

}  // namespace plumb::cuda::depthwise_weights
