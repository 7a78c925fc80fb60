// Depthwise backward weights with lanes along the channels: neighbouring lanes read neighbours of x
// and dy as they lie, and all else is the same for them. What several threads or steps read comes
// from L1.
#pragma once

#include "cuda_kernels/depthwise_weights/depthwise_weights_sums.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda::depthwise_weights {

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
  const int x_step = plan.w.step * params.x_w, y_step = plan.w.dilation * params.y_q;

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
    // Which columns there are, a bit each: to test a bit is one instruction.
    unsigned x_columns = 0;
#pragma unroll
    for (int column = 0; column < Sums::window; ++column) {
      const int w = first_w + plan.w.step * column;
      if (w >= 0 && w < plan.w.extent) x_columns |= 1u << column;
    }
    const int left = unit.columns.end - unit.columns.begin;
    const unsigned y_columns = (1u << (left < step.outputs ? left : step.outputs)) - 1;
    for (int line = unit.lines.begin; line < unit.lines.end; line += step.lines) {
      sums.template add<Sums::window>(
          [&](int i, Real(&to)[Sums::window]) {
            const int row = stride * line + i;
            const int h = plan.h.step * row + unit.lines.start;
            const bool inside = row < stride * unit.lines.end && h >= 0 && h < plan.h.extent;
            const int from = h * params.x_h + x_first;
            const unsigned which = inside ? x_columns : 0;
#pragma unroll
            for (int column = 0; column < Sums::window; ++column) {
              const bool valid = (which & 1u << column) != 0;
              to[column] = valid ? convert<Real>(x[from + column * x_step]) : Real{0};
            }
          },
          [&](int i, Real(&to)[step.outputs]) {
            const int row = line + i - (Sums::taps_of_line - 1);
            const bool inside = row >= 0 && row < of_phase_h;
            const int from = (unit.phase_h + plan.h.dilation * row) * params.y_p + y_first;
            const unsigned which = inside ? y_columns : 0;
#pragma unroll
            for (int q = 0; q < step.outputs; ++q) {
              const bool valid = (which & 1u << q) != 0;
              to[q] = valid ? convert<Real>(dy[from + q * y_step]) : Real{0};
            }
          });
    }
  }
  const Team team{plan.cut.block_k, plan.cut.members, 1, plan.cut.block_k};
  write_part<Real, rows, columns>(params, share, team, sums,
                                  reinterpret_cast<Real*>(dynamic_shared()), parts);
}

}  // namespace plumb::cuda::depthwise_weights
