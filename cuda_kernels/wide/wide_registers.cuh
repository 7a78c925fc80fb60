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
/// for the fourth term behind. All follow from one offset.
template <bool across>
class WideElements {
 public:
  static constexpr int m64_bytes = 64 * swizzle_row_bytes;

  __device__ WideElements() {
    const int lane = static_cast<int>(threadIdx.x) % 32,
              warp = static_cast<int>(threadIdx.x) / 32 % 4;
    const int row = lane / 4, term = lane % 4;
    if constexpr (across) {
      // A row of the tile is a channel under 32 pixels, two warps'.
      const int unit = warp % 2 * 4 + row / 4;
      at_ = warp / 2 * swizzle_rows * wide_slices * swizzle_row_bytes + term * swizzle_row_bytes +
            (unit ^ term) * 16 + row % 4 * 4;
    } else {
      at_ = (16 * warp + row) * swizzle_row_bytes + row * 16 + term * 4;
    }
  }
  /// Reads one of the m64 tile whose pixels begin at `tile`.
  __device__ float read(const char* tile, int slice, int i) const {
    const int below = i % 2, behind = i / 2;
    const int flip = across ? 64 * behind ^ 32 * below : 16 * (2 * slice + behind);
    const int next = across ? (swizzle_rows * slice + 4 * behind) * swizzle_row_bytes
                            : 8 * below * swizzle_row_bytes;
    return *reinterpret_cast<const float*>(tile + (at_ ^ flip) + next);
  }

 private:
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
  using Elements = WideElements<Arithmetic::across>;
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
    for (int slice = 0; slice < wide_slices; ++slice) {
      auto& fragment = fragments[slice % 2];
      const bool stale = fault == WideFault::stale_fragment && slice == 0 && step > begin;
      const char* const tile = stale ? shared.pixels(last) + first : pixels;
      float read[m64_tiles][4];
#pragma unroll
      for (int i = 0; i < 4 * m64_tiles; ++i)
        read[i / 4][i % 4] = elements.read(tile + i / 4 * Elements::m64_bytes, slice, i % 4);
      // What the slice before the last has read is free.
      wgmma_end<1>();
#pragma unroll
      for (int i = 0; i < m64_tiles; ++i) fragment[i].hold(), fragment[i].take(read[i]);
      if (slice == 1 && step > begin) release(last);
      sums.settle();
      wgmma_begin();
#pragma unroll
      for (int i = 0; i < m64_tiles; ++i)
        fragment[i].template multiply<n8_tiles>(sums.of[i], at + 32 * slice / 16,
                                                shape.b_bytes() / 16, slice > 0 || step > begin);
      wgmma_commit();
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
__device__ void multiply_tile(const Params& params, const WideShared<shape>& shared,
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
    const int small = max(work.begin, min(work.end, 2 * params.steps));
    int begin = work.begin;
#pragma unroll 1
    for (int part = 0; part < 2; ++part) {
      const int end = part == 0 ? small : work.end;
      if (begin == end) continue;
      multiply_stages<Operand>(shared, stage, begin, end, work.begin, sums);
      if (end <= 2 * params.steps) sums.scale(1 / split_raise);
      begin = end;
    }
  }
}

}  // namespace plumb::cuda
