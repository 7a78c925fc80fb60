// The products of interleaved.cu, both operands in shared memory (PTX wgmma), and the filters that
// stream there.
//
// Nothing of x passes through registers: a tap further on is a descriptor so many records further
// on, whatever the alignment. So a product of 64 x 128 x 16 takes its 64 clocks (one H200, also by
// one warpgroup alone), and there are ten instructions for each three.
#pragma once

#include "cuda_kernels/common/interleaved_shape.cuh"
#include "cuda_kernels/common/split.hpp"
#include "cuda_kernels/common/wgmma.cuh"

namespace plumb::cuda {

/// The sums that a thread has of 64 x 128.
using InterleavedSums = float[64];

/// A slot's three products. What is small has sums of its own (SplitWindows).
__device__ inline void multiply_slot(InterleavedSums& sums, InterleavedSums& small, std::uint32_t w,
                                     std::uint32_t x, std::uint32_t x_low, int add) {
  wgmma_shared(small, w + interleaved_part_bytes / 16, x, add);
  wgmma_shared(sums, w, x, add);
  wgmma_shared(small, w, x_low, 1);
}

/// Multiplies tile after tile, 128 places of outputs at a time by each warpgroup, and hands the
/// sums over to those who write.
__device__ inline void multiply(const InterleavedShape& shape, InterleavedControl& control) {
  constexpr int places_at_once = interleaved_warpgroups * interleaved_columns;
  // From one half of A's terms to the other.
  constexpr std::uint32_t halves_apart = interleaved_rows * 16 / 16 << 16;
  constexpr std::uint32_t slot_sixteenths = interleaved_slot_bytes / 16;
  const InterleavedTeam team(shape);
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4,
            lane = static_cast<int>(threadIdx.x) % 32;
  float* const stages = reinterpret_cast<float*>(dynamic_shared() + interleaved_control_bytes) +
                        (warp * 16 + lane / 4) * stage_pitch + lane % 4 * 2;
  const std::uint32_t w_first = wgmma_address(dynamic_shared() + shape.w_at) | halves_apart;
  const std::uint32_t low = shape.low_apart / 16;
  const bool streams = shape.places > 1;
  int place = 0, parity = 0, grants = 0, round = 0;
  const auto leave = [&](int of) {
    if (threadIdx.x % 128 == 0) control.left[of == 0 ? shape.places - 1 : of - 1].arrive();
  };
  for (int number = team.first; number < shape.items; number += team.members, ++round) {
    const int turn = round % 2;
    control.full[turn].wait(round / 2 & 1);
    const int2 of_tile = {control.exponent[turn], control.flags[turn]};
    const std::uint32_t x_first =
        wgmma_address(dynamic_shared() + shape.x_at + turn * shape.x_apart);
#pragma unroll 1
    for (int both = 0; both < shape.span; both += places_at_once) {
      const int first = both + warpgroup * interleaved_columns;
      const bool exists = first < shape.span;
      InterleavedSums sums, small;
      // From one lane, so that compilers know it for the same.
      const std::uint32_t x = __shfl_sync(0xffffffff, x_first + (exists ? first : 0), 0);
      if (!streams) {
        if (round == 0 && both == 0) control.filled[0].wait(0);
        std::uint32_t w = w_first;
        wgmma_begin();
#pragma unroll 2
        for (int slot = 0; slot < shape.slots; ++slot, w += slot_sixteenths) {
          const std::uint32_t at = x + shape.slots_at[slot];
          multiply_slot(sums, small, w, at, at + low, slot);
        }
        wgmma_commit();
      } else {
        // Both warpgroups take all slices, also where one has nothing to make of them.
#pragma unroll 1
        for (int slice = 0; slice < shape.slices; ++slice) {
          control.filled[place].wait(parity);
          const std::uint32_t w = w_first + place * slice_slots * slot_sixteenths;
          wgmma_begin();
#pragma unroll
          for (int i = 0; i < slice_slots; ++i) {
            const std::uint32_t at = x + shape.slots_at[slice * slice_slots + i];
            multiply_slot(sums, small, w + i * slot_sixteenths, at, at + low, slice + i);
          }
          wgmma_commit();
          wgmma_end<1>();
          if (slice > 0) leave(place);
          if (++place == shape.places) place = 0, parity ^= 1;
        }
      }
      wgmma_end();
      if (streams) leave(place);
      wgmma_settle(sums);
      wgmma_settle(small);
      if (both + places_at_once >= shape.span) control.empty[turn].arrive();
      if (!exists) continue;
      const int pass = round * shape.passes + first / interleaved_columns;
      const int stage = shape.stages == 1 ? 0 : pass % most_stages;
      if (pass >= shape.stages) {
        control.granted[warpgroup][stage][warp].wait(grants >> stage & 1);
        grants ^= 1 << stage;
      }
      float* const to = stages + stage * (stage_bytes / 4);
#pragma unroll
      for (int i = 0; i < 64; i += 4) {
        const auto sum = [&](int j) { return fmaf(small[i + j], 1 / split_raise, sums[i + j]); };
        *reinterpret_cast<float2*>(to + i * 2) = {sum(0), sum(1)};
        *reinterpret_cast<float2*>(to + i * 2 + 8 * stage_pitch) = {sum(2), sum(3)};
      }
      if (lane == 0) control.stage_of[stage][warp] = of_tile;
      control.staged[stage][warp].arrive();
    }
  }
}

/// Fills the places of filters, over and over where they stream. By one thread.
__device__ inline void feed(const InterleavedShape& shape, InterleavedControl& control) {
  const InterleavedTeam team(shape);
  const int tiles =
      team.first < shape.items ? (shape.items - team.first - 1) / team.members + 1 : 0;
  const int rounds =
      tiles * ((shape.span - 1) / (interleaved_warpgroups * interleaved_columns) + 1);
  const int all = shape.places > 1 ? rounds * shape.slices : 1;
  const char* const slots = shape.packed + team.number * shape.group_bytes + packed_header_bytes;
  const int bytes = shape.slice_slots * interleaved_slot_bytes;
  int place = 0, slice = 0, parity = 1;
  for (int i = 0; i < all; ++i) {
    if (i >= shape.places) control.left[place].wait(parity);
    control.filled[place].expect(bytes);
    control.filled[place].copy(dynamic_shared() + shape.w_at + place * bytes,
                               slots + static_cast<std::int64_t>(slice) * bytes, bytes);
    if (++slice == shape.slices) slice = 0;
    if (++place == shape.places) place = 0, parity ^= 1;
  }
}

}  // namespace plumb::cuda
