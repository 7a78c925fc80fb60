// A group's filters in shared memory as a product's columns: w[channel][slot][eight][lane].
#pragma once

#include <cstring>

#include "cuda_kernels/common/bulk_copy.cuh"
#include "cuda_kernels/common/window_input.cuh"

namespace plumb::cuda {

/// Reads the taps of one group of filters.
template <class Stored>
struct WindowTaps {
  const WindowShape& shape;
  const Stored* w;
  int first_k;
  const Stored* bias;  ///< of all filters, or null

  __device__ float bias_of(int k_of_group) const {
    const int k = first_k + k_of_group;
    return bias && k < shape.conv.k.value() ? convert<float>(bias[k]) : 0;
  }
  __device__ float operator()(int k_of_group, int c, int r, int s) const {
    const auto& step = shape.conv.w_step;
    const int k = first_k + k_of_group;
    if (k >= shape.conv.k.value() || r >= shape.conv.r.value() || s < 0 ||
        s >= shape.conv.s.value())
      return 0;
    return convert<float>(w[k * step.k + c * step.c + r * step.r + s * step.s]);
  }
};

/// Finds each filter's scale, its bias, and what the filters hold; a warp takes a filter at a time.
/// `scaled`: otherwise only whether all are finite.
template <bool scaled, class Stored>
__device__ void look_at_filters(const WindowTaps<Stored>& taps, WindowControl& control) {
  const WindowShape& shape = taps.shape;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int terms = shape.channels.value() * shape.conv.r.value() * shape.conv.s.value();
  const auto each = [&](int filter, auto&& use) {
    for (int term = lane; term < terms; term += 32) {
      const auto [rows, s] = shape.conv.s.divide(term);
      const auto [c, r] = shape.conv.r.divide(rows);
      use(taps(filter, c, r, s));
    }
  };
  for (int filter = warp; filter < shape.group_filters;
       filter += static_cast<int>(blockDim.x) / 32) {
    int most = 0;
    each(filter, [&](float tap) { most = max(most, magnitude_bits(tap)); });
    most = __reduce_max_sync(0xffffffff, most);
    int flags = most >= infinity_bits ? met_non_finite : 0;
    if constexpr (scaled) {
      const int exponent = scale_exponent(most >= infinity_bits ? 0 : most);
      const float scale = power_of_two(exponent);
      bool small = false;
      each(filter,
           [&](float tap) { small = small || (tap != 0 && fabsf(tap * scale) < split_least); });
      flags |= __any_sync(0xffffffff, small) ? met_range : 0;
      if (lane == 0) {
        control.filter_scales[filter] = power_of_two(-exponent);
        if (most > 0) {
          atomicMin(&control.least_exponent, exponent);
          atomicMax(&control.most_exponent, exponent);
        }
      }
    }
    if (lane == 0) control.filter_bias[filter] = taps.bias_of(filter);
    if (lane == 0 && flags != 0) atomicOr(&control.filter_flags, flags);
  }
}

/// Writes a lane's part of a slot as wgmma() wants it: a lane's first taps are in the first half of
/// a matrix, its second ones in the other, and the slot's matrices follow each other.
template <class Scheme>
__device__ void write_slot(const typename Scheme::Slot& filled, char* slots, int slot, int eight,
                           int eights, int lane) {
  constexpr int words = sizeof filled / sizeof(Fragment);
  Fragment word[words];
  memcpy(word, &filled, sizeof filled);
  Fragment* const to = reinterpret_cast<Fragment*>(slots) + lane;
#pragma unroll
  for (int j = 0; j < words; ++j)
    to[((slot * words / 2 + j / 2) * eights + eight) * 64 + j % 2 * 32] = word[j];
}

/// By the whole block; ends without a barrier. `warpgroups`: as wgmma() wants them, the two
/// segments (or parts) of a slot one after the other.
template <class Scheme, int eights, bool warpgroups, class Stored>
__device__ void write_filters(const WindowTaps<Stored>& taps, const WindowControl& control,
                              char* w_tile) {
  const WindowShape& shape = taps.shape;
  using Slot = typename Scheme::Slot;
  const int slots = shape.channels.value() * shape.channel_slots * eights * 32;
  for (int i = static_cast<int>(threadIdx.x); i < slots; i += static_cast<int>(blockDim.x)) {
    const int lane = i % 32, eight = i / 32 % eights, slot_of_all = i / 32 / eights;
    const int c = slot_of_all / shape.channel_slots, slot = slot_of_all % shape.channel_slots;
    const int column = eight * 8 + lane / 4;
    const int filter = column / shape.shifts, shift = column % shape.shifts;
    const float scale = Scheme::scaled ? 1 / control.filter_scales[filter] : 1;
    float values[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int segment = 2 * slot + j / 2;
      const int tap = lane % 4 * 2 + j % 2;
      const int r = shape.wide ? slot : segment * shape.segment_rows + (tap >> shape.segment_bits);
      const int s = (shape.wide ? j / 2 * 8 : 0) + (tap & ((1 << shape.segment_bits) - 1)) - shift;
      values[j] = taps(filter, c, r, s) * scale;
    }
    const Slot filled = Scheme::slot(values);
    if constexpr (warpgroups) {
      write_slot<Scheme>(filled, w_tile, slot_of_all, eight, eights, lane);
    } else {
      reinterpret_cast<Slot*>(w_tile)[i] = filled;
    }
  }
  if constexpr (warpgroups) order_shared_writes();
}

}  // namespace plumb::cuda
