// The producer, one thread, fills stages through the copy engine.
#pragma once

#include "cuda_kernels/wide/wide_params.cuh"

namespace plumb::cuda {

/// A step of the reduction: a block of channels under a tap, of one product. Of split operands the
/// small products come first: x's low halves with the filters' high ones, high with low, and high
/// with high.
struct WideStep {
  int product, number, block, tap[3];  ///< `number` is that of the product's steps

  template <class Params>
  __device__ WideStep(const Params& params, int of_all) : product(0), number(of_all) {
    if constexpr (Params::Arithmetic::splits_in_memory)
      product = of_all / params.steps, number = of_all % params.steps;
    int rest = number / params.channel_blocks;
    block = number % params.channel_blocks;
    tap[0] = rest % params.axis[0].taps, rest /= params.axis[0].taps;
    tap[1] = rest % params.axis[1].taps, tap[2] = rest / params.axis[1].taps;
  }
  template <class Params>
  __device__ void advance(const Params& params) {
    ++number;
    if (++block < params.channel_blocks) return;
    block = 0;
    if (++tap[0] < params.axis[0].taps) return;
    tap[0] = 0;
    if (++tap[1] < params.axis[1].taps) return;
    tap[1] = 0;
    if (++tap[2] < params.axis[2].taps) return;
    tap[2] = 0, number = 0, ++product;
  }
};

/// Arms the full barrier of a stage and begins the copy of its filters. `pixel_bytes` come besides.
template <WideShape shape, class Params>
__device__ void copy_filters(const Params& params, const WideShared<shape>& shared, int stage,
                             const WideWorkItem& work, const WideStep& step, int pixel_bytes) {
  const int bytes = min(shape.n, params.rows - work.filter) * swizzle_row_bytes;
  StageBarrier& full = shared.full(stage);
  full.arrive_expecting(pixel_bytes + shape.filter_planes * bytes);
  const char* from = params.filters + (std::int64_t{step.number} * params.all_rows +
                                       work.group * params.rows + work.filter) *
                                          swizzle_row_bytes;
  if constexpr (Params::Arithmetic::splits_in_memory)
    if (step.product == 1) from += params.plane_bytes;
  full.copy(shared.filters(stage), from, bytes);
  if constexpr (Params::Arithmetic::splits_in_registers)
    full.copy(shared.filters(stage) + shape.b_bytes(), from + params.plane_bytes, bytes);
}

/// Returns the first channel of a step in the map's tensor.
template <WideFault fault, class Params>
__device__ int first_channel(const Params& params, const WideWorkItem& work, const WideStep& step) {
  const int group = fault == WideFault::wrong_group && work.group > 0 ? work.group - 1 : work.group;
  int channel = group * params.group_channels + step.block * Params::Arithmetic::step_channels;
  if constexpr (Params::Arithmetic::splits_in_memory)
    if (step.product == 0 || (fault == WideFault::low_twice && step.product == 1))
      channel += params.low_channels;
  return channel;
}

/// Where a copy's first pixel lies in the map's box.
struct WideCorner {
  int at[3], n;

  template <class Params>
  __device__ WideCorner(const Params& params, int number) {
    if (params.axes == 0) {
      at[0] = number;
      return;
    }
    const WidePixel pixel = params.pixel(number);
    n = pixel.n;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis)
      at[axis] = pixel.at[axis] * params.axis[axis].stride - params.axis[axis].before;
  }
  WideCorner() = default;
};

/// Begins the copies of a step's pixels.
template <WideShape shape, WideFault fault, class Params, int copies>
__device__ void copy_pixels(const Params& params, const WideShared<shape>& shared, int stage,
                            const WideWorkItem& work, const WideStep& step,
                            const WideCorner (&corners)[copies]) {
  const int channel = first_channel<fault>(params, work, step);
  if constexpr (Params::Arithmetic::across) {
    // In this map pixels lie innermost, and channels are what a copy goes along.
    const int at[3] = {channel}, none[3] = {};
#pragma unroll
    for (int i = 0; i < copies; ++i)
      shared.full(stage).copy_im2col(
          shared.pixels(stage) + i * params.across_pixels * swizzle_row_bytes, params.map, 1,
          corners[i].at[0], at, corners[i].n, none);
    return;
  }
  const int offset[3] = {step.tap[0] * params.axis[0].dilation,
                         step.tap[1] * params.axis[1].dilation,
                         step.tap[2] * params.axis[2].dilation};
#pragma unroll
  for (int i = 0; i < copies; ++i) {
    char* const to = shared.pixels(stage) + i * shape.pixels_of_copy() * swizzle_row_bytes;
    if (params.axes == 0)
      shared.full(stage).copy_tiled(to, params.map, {channel, corners[i].at[0], 0, 0, 0});
    else
      shared.full(stage).copy_im2col(to, params.map, params.axes, channel, corners[i].at,
                                     corners[i].n, offset);
  }
}

/// Fills the stages of all tiles. One thread calls it.
template <WideShape shape, WideFault fault, class Params>
__device__ void produce(const Params& params, const WideShared<shape>& shared) {
  constexpr int of_copy =
      Params::Arithmetic::across ? Params::across_pixels : shape.pixels_of_copy();
  constexpr int copies = shape.m / of_copy;
  WideStage<shape> stage;
#pragma unroll 1
  for (int of_block = static_cast<int>(blockIdx.x); of_block < params.works;
       of_block += static_cast<int>(gridDim.x)) {
    const WideWorkItem work = wide_work<shape>(params, of_block);
    WideCorner corners[copies];
#pragma unroll
    for (int i = 0; i < copies; ++i) corners[i] = WideCorner(params, work.pixel + i * of_copy);
    WideStep step(params, work.begin);
#pragma unroll 1
    for (int number = work.begin; number < work.end; ++number) {
      const bool stale = fault == WideFault::stale_stage && number + 1 == work.end;
      shared.empty(stage.number).wait(stage.parity ^ 1);
      copy_filters(params, shared, stage.number, work, step, stale ? 0 : shape.a_bytes());
      if (!stale) copy_pixels<shape, fault>(params, shared, stage.number, work, step, corners);
      step.advance(params);
      stage.advance();
    }
  }
}

}  // namespace plumb::cuda
