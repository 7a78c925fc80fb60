// Pixels go through registers to the tensor cores (PTX wgmma, A in registers): each thread reads
// its elements of f32 from the stage, by pixel rows or from planes as they lie, and for three
// products splits them on the way. Filters stay in shared memory.
#pragma once

#include "cuda_kernels/primitives/wgmma_registers.cuh"
#include "cuda_kernels/wide/wide_consumer.cuh"
#include "cuda_kernels/wide/wide_halves.cuh"

namespace plumb::cuda {

/// A slice of a step is the eight channels of an instruction.
inline constexpr int wide_slices = 4;

/// Where a thread's elements of its warpgroup's pixels lie in a stage, as wgmma has them in
/// registers: `i` is 0 for row lane / 4 and term lane % 4, 1 for the eighth row below, and 2 and 3
/// for the fourth term behind. All follow from one offset. Terms are the channels in their order,
/// or of three products those of wide_split_channel().
template <class Arithmetic>
class WideElements {
 public:
  static constexpr int m64_bytes = 64 * swizzle_row_bytes;

  __device__ WideElements() {
    const int lane = static_cast<int>(threadIdx.x) % 32,
              warp = static_cast<int>(threadIdx.x) / 32 % 4;
    const int row = lane / 4;
    const int channel = permutes ? wide_split_channel(lane % 4) : lane % 4;
    if constexpr (Arithmetic::across) {
      // A row of the tile is a channel under 32 pixels, two warps'.
      const int pixel = 16 * (warp % 2) + row;
      at_ = warp / 2 * Arithmetic::step_channels * swizzle_row_bytes +
            swizzle_128(channel * swizzle_row_bytes + 4 * pixel);
    } else {
      at_ = swizzle_128((16 * warp + row) * swizzle_row_bytes + 4 * channel);
    }
  }
  /// Reads those of a pair of slices, of the 64 pixels that begin at `tile`.
  __device__ void read(const char* tile, int pair, float (&to)[2][4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int below = i % 2, behind = i / 2;
      if constexpr (!Arithmetic::across) {
        const char* const at =
            tile + (at_ ^ (8 * pair | 16 * behind)) + 8 * below * swizzle_row_bytes;
        const auto two = *reinterpret_cast<const float2*>(at);
        to[0][i] = two.x, to[1][i] = two.y;
      } else {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          // From channel to channel both its row and its place in the swizzle change.
          const int slice = 2 * pair + j, next = permutes ? slice ^ 4 * behind : 4 * behind;
          const int at = at_ ^ next * (swizzle_row_bytes + 16) ^ 32 * below;
          to[j][i] = *reinterpret_cast<const float*>(
              tile + at + (permutes ? 0 : swizzle_rows * slice * swizzle_row_bytes));
        }
      }
    }
  }

 private:
  static constexpr bool permutes = Arithmetic::splits_in_registers;
  static_assert(permutes || Arithmetic::across);
  int at_;
};

/// A slice of 64 pixels in registers.
template <class Arithmetic, WideFault fault>
struct WideFragment {
  static constexpr bool splits = Arithmetic::splits_in_registers;
  Fragment high[4] = {}, low[splits ? 4 : 1] = {};

  __device__ void take(const float (&elements)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float element = elements[fault == WideFault::swapped_terms ? i ^ 2 : i];
      if constexpr (splits) {
        const WideTf32Halves halves(element);
        high[i] = halves.high, low[i] = fault == WideFault::lost_low ? 0 : halves.low;
      } else {
        high[i] = __float_as_uint(element);  // the copy engine has rounded it
      }
    }
  }
  __device__ void hold() const {
    wgmma_hold(high);
    if constexpr (splits) wgmma_hold(low);
  }
  /// Begins the slice's products with filters, small ones first. `low_at` is how far their low
  /// halves are behind the high ones.
  template <int n8_tiles>
  __device__ void multiply(float (&sums)[4 * n8_tiles], WgmmaMatrix filters, int low_at,
                           int add) const {
    if constexpr (splits) {
      wgmma_registers<n8_tiles>(sums, low, filters, add);
      wgmma_registers<n8_tiles>(sums, high, filters + low_at, 1);
      wgmma_registers<n8_tiles>(sums, high, filters, 1);
    } else {
      wgmma_registers<n8_tiles>(sums, high, filters, add);
    }
  }
};

/// Sums the steps of a tile. Two fragments take turns: one is made while the other's products are
/// under way. A stage is released when the next one's second slice finds its products done.
template <class Arithmetic, WideFault fault, WideShape shape>
__device__ void multiply_registers(const WideShared<shape>& shared, WideStage<shape>& stage,
                                   int begin, int end, WideSums<shape>& sums) {
  using Elements = WideElements<Arithmetic>;
  constexpr int m64_tiles = WideSums<shape>::m64_tiles, n8_tiles = WideSums<shape>::n8_tiles;
  static_assert(shape.across == 1);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = consumer_warpgroup() * m64_tiles * Elements::m64_bytes;
  const Elements elements;
  const WgmmaMatrix filters = wgmma_swizzled_matrix(shared.filters(0));
  const auto release = [&](int number) {
    if (lane == 0) shared.empty(number).arrive();
  };
  WideFragment<Arithmetic, fault> fragments[2][m64_tiles];
  int last = 0;
#pragma unroll 1
  for (int step = begin; step < end; ++step) {
    shared.full(stage.number).wait(stage.parity);
    const char* const pixels = shared.pixels(stage.number) + first;
    const WgmmaMatrix at = filters + stage.number * (shape.stage_bytes() / 16);
#pragma unroll
    for (int pair = 0; pair < wide_slices / 2; ++pair) {
      const bool stale = fault == WideFault::stale_fragment && pair == 0 && step > begin;
      const char* const tile = stale ? shared.pixels(last) + first : pixels;
      float read[m64_tiles][2][4];
#pragma unroll
      for (int i = 0; i < m64_tiles; ++i)
        elements.read(tile + i * Elements::m64_bytes, pair, read[i]);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int slice = 2 * pair + j;
        // What the slice before the last has read is free.
        wgmma_end<1>();
#pragma unroll
        for (int i = 0; i < m64_tiles; ++i)
          fragments[j][i].hold(), fragments[j][i].take(read[i][j]);
        if (slice == 1 && step > begin) release(last);
        sums.settle();
        wgmma_begin();
#pragma unroll
        for (int i = 0; i < m64_tiles; ++i)
          fragments[j][i].template multiply<n8_tiles>(
              sums.of[i], at + 32 * slice / 16, shape.b_bytes() / 16, slice > 0 || step > begin);
        wgmma_commit();
      }
    }
    last = stage.number;
    stage.advance();
  }
  wgmma_end();
  sums.settle();
  release(last);
}

/// Sums the steps of a tile. Of halves in memory the small products' sums, whose low halves were
/// raised, are brought down before the large ones are added.
template <WideFault fault, WideShape shape, class Params>
__device__ __forceinline__ void multiply_tile(const Params& params, const WideShared<shape>& shared,
                                              WideStage<shape>& stage, const WideWorkItem& work,
                                              WideSums<shape>& sums) {
  using Arithmetic = typename Params::Arithmetic;
  using Operand = typename Arithmetic::Operand;
  if constexpr (Arithmetic::in_registers) {
    multiply_registers<Arithmetic, fault>(shared, stage, work.begin, work.end, sums);
  } else if constexpr (!Arithmetic::splits_in_memory) {
    using Terms = std::conditional_t<Arithmetic::across, WidePixelsAcross, WideTermsAlong>;
    multiply_stages<Operand, Terms>(shared, stage, work.begin, work.end, work.begin, sums);
  } else {
    // Two loops: of one that is gone through twice, ptxas takes the scaling for part of the
    // products' pipeline, and waits for each product.
    const int small = max(work.begin, min(work.end, 2 * params.steps));
    if (small > work.begin) {
      multiply_stages<Operand>(shared, stage, work.begin, small, work.begin, sums);
      sums.scale(1 / split_raise);
    }
    if (small < work.end)
      multiply_stages<Operand>(shared, stage, small, work.end, work.begin, sums);
  }
}

}  // namespace plumb::cuda
