// The producer warpgroup fills stages: one thread by the copy engine, or, where x is not aligned
// for it, all threads element by element.
#pragma once

#include "cuda_kernels/primitives/bulk_copy.cuh"
#include "cuda_kernels/wide/wide_params.cuh"

namespace plumb::cuda {

/// A step of the reduction: a block of channels under a tap.
struct WideStep {
  int block, tap[3];

  template <class Params>
  __device__ WideStep(const Params& params, int number) {
    int rest = number / params.channel_blocks;
    block = number % params.channel_blocks;
    tap[0] = rest % params.axis[0].taps, rest /= params.axis[0].taps;
    tap[1] = rest % params.axis[1].taps, tap[2] = rest / params.axis[1].taps;
  }
  template <class Params>
  __device__ void advance(const Params& params) {
    if (++block < params.channel_blocks) return;
    block = 0;
    if (++tap[0] < params.axis[0].taps) return;
    tap[0] = 0;
    if (++tap[1] < params.axis[1].taps) return;
    tap[1] = 0, ++tap[2];
  }
};

/// Arms the full barrier of a stage and begins the copy of its filters, of which the blocks of a
/// cluster load a part each for all. `pixel_bytes` come besides.
template <WideShape shape, class Params>
__device__ void copy_filters(const Params& params, const WideShared<shape>& shared, int stage,
                             const WideWorkItem& work, int step, int pixel_bytes) {
  const int bytes = min(shape.n, params.rows - work.filter) * swizzle_row_bytes;
  StageBarrier& full = shared.full(stage);
  full.arrive_expecting(pixel_bytes + bytes);
  const char* const from =
      params.filters + (std::int64_t{step} * params.rows + work.filter) * swizzle_row_bytes;
  if constexpr (shape.cluster == 1) {
    full.copy(shared.filters(stage), from, bytes);
  } else {
    const int part = bytes / shape.cluster, at = block_of_cluster() * part;
    full.copy_to_cluster(shared.filters(stage) + at, from + at, part, (1 << shape.cluster) - 1);
  }
}

/// Fills the stages of all tiles through the copy engine. One thread calls it.
template <WideShape shape, WideFault fault, class Params>
__device__ void produce(const Params& params, const WideShared<shape>& shared) {
  constexpr int pixels_of_copy = shape.pixels_of_copy(), copies = shape.m / pixels_of_copy;
  prefetch_map(params.map);
  WideStage<shape> stage;
  for_each_work<shape>(params, [&](const WideWorkItem& work) {
    int at[copies][3], n[copies];
#pragma unroll
    for (int i = 0; i < copies; ++i) {
      const WidePixel pixel = params.pixel(work.pixel + i * pixels_of_copy);
      n[i] = pixel.n;
#pragma unroll
      for (int axis = 0; axis < 3; ++axis)
        at[i][axis] = pixel.at[axis] * params.axis[axis].stride - params.axis[axis].before;
    }
    WideStep step(params, work.begin);
#pragma unroll 1
    for (int number = work.begin; number < work.end; ++number) {
      const bool stale = fault == WideFault::stale_stage && number + 1 == work.end;
      shared.empty(stage.number).wait(stage.parity ^ 1);
      copy_filters(params, shared, stage.number, work, number, stale ? 0 : shape.a_bytes());
      const int offset[3] = {step.tap[0] * params.axis[0].dilation,
                             step.tap[1] * params.axis[1].dilation,
                             step.tap[2] * params.axis[2].dilation};
#pragma unroll
      for (int i = 0; i < copies; ++i)
        if (!stale)
          shared.full(stage.number)
              .copy_im2col(shared.pixels(stage.number) + i * pixels_of_copy * swizzle_row_bytes,
                           params.map, params.axes, step.block * wide_channels, at[i], n[i],
                           offset);
      step.advance(params);
      stage.advance();
    }
  });
}

/// Copies the channels of a step under one pixel to its swizzled row; `inside` says whether the tap
/// is on the image.
template <class Params>
__device__ void gather_row(const Params& params, char* tile, int row, const WideStep& step,
                           bool inside, const typename Params::Stored* from) {
  const int first = step.block * wide_channels;
#pragma unroll 1
  for (int at = 0; at < wide_channels; at += 8) {
    std::uint32_t words[4] = {};
    if (inside)
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (first + at + i < params.c)
          words[i / 2] |= std::uint32_t{reinterpret_cast<const std::uint16_t*>(from)[at + i]}
                          << i % 2 * 16;
    *reinterpret_cast<uint4*>(tile + swizzle_128(row * swizzle_row_bytes + 2 * at)) = {
        words[0], words[1], words[2], words[3]};
  }
}

/// Fills the stages of all tiles by the warpgroup's threads, for an x that the copy engine does not
/// take; it loads the filters.
template <WideShape shape, class Params>
__device__ void gather(const Params& params, const WideShared<shape>& shared) {
  const int thread = static_cast<int>(threadIdx.x) - wide_consumers;
  WideStage<shape> stage;
  for_each_work<shape>(params, [&](const WideWorkItem& work) {
    WideStep step(params, work.begin);
#pragma unroll 1
    for (int number = work.begin; number < work.end; ++number) {
      shared.empty(stage.number).wait(stage.parity ^ 1);
      if (thread == 0) copy_filters(params, shared, stage.number, work, number, 0);
#pragma unroll 1
      for (int row = thread; row < shape.m; row += 128) {
        const WidePixel pixel = params.pixel(work.pixel + row);
        bool inside = work.pixel + row < params.pixels;
        std::int64_t from = pixel.n * params.x_n + step.block * wide_channels;
#pragma unroll
        for (int i = 0; i < 3; ++i) {
          const WideAxis& axis = params.axis[i];
          const int at = pixel.at[i] * axis.stride - axis.before + step.tap[i] * axis.dilation;
          inside = inside && at >= 0 && at < axis.extent;
          from += at * axis.x_step;
        }
        gather_row(params, shared.pixels(stage.number), row, step, inside, params.x + from);
      }
      order_shared_writes();
      shared.full(stage.number).arrive();
      step.advance(params);
      stage.advance();
    }
  });
}

}  // namespace plumb::cuda
