// A group's filters as they are packed: what outputs need of them, and behind it the slots of the
// product as lanes or four warps together read them from shared memory.
#pragma once

#include <cstring>

#include "cuda_kernels/common/async_copy.cuh"
#include "cuda_kernels/common/packed_header.hpp"
#include "cuda_kernels/common/window_input.cuh"

namespace plumb::cuda {

/// Writes what outputs need of a filter to its group's header, and its elements to `dense`; returns
/// the scale of what is packed. By a warp: `each(use)` calls `use(term, value)` for the lane's.
template <bool scaled, class Stored, class Each>
__device__ float describe_filter(PackedHeader& header, int of_group, Stored* dense, Each&& each) {
  int most = 0;
  each([&](int term, float value) {
    most = max(most, magnitude_bits(value));
    dense[term] = convert<Stored>(value);
  });
  most = __reduce_max_sync(0xffffffff, most);
  const bool finite = most < infinity_bits;
  const int exponent = scaled ? scale_exponent(finite ? most : 0) : 0;
  bool small = false;
  if constexpr (scaled) {
    const float scale = power_of_two(exponent);
    each([&](int, float value) {
      small = small || (value != 0 && fabsf(value * scale) < split_least);
    });
  }
  small = __any_sync(0xffffffff, small);
  if (threadIdx.x % 32 == 0) {
    header.scales[of_group] = power_of_two(-exponent);
    header.exponents[of_group] = most > 0 ? exponent : no_exponent;
    header.flags[of_group] = (finite ? 0 : met_non_finite) | (small ? met_range : 0);
  }
  return power_of_two(exponent);
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

/// Takes what a group's outputs need of its filters, from `first_k` on. By the whole block; ends
/// without a barrier. `bias` is of all filters, or null.
template <class Stored>
__device__ void take_header(const WindowShape& shape, const PackedHeader& header, int first_k,
                            const Stored* bias, WindowControl& control) {
  for (int i = static_cast<int>(threadIdx.x); i < shape.group_filters; i += blockDim.x) {
    const int k = first_k + i;
    control.filter_scales[i] = header.scales[i];
    control.filter_bias[i] = bias && k < shape.conv.k.value() ? convert<float>(bias[k]) : 0;
    if (header.flags[i] != 0) atomicOr(&control.filter_flags, header.flags[i]);
    if (header.exponents[i] == no_exponent) continue;
    atomicMin(&control.least_exponent, header.exponents[i]);
    atomicMax(&control.most_exponent, header.exponents[i]);
  }
}

/// Begins to copy a group's slots to `w_tile`, a multiple of 16 bytes. By the whole block; each
/// thread waits for its own copies.
__device__ inline void copy_filters(const char* slots, int bytes, char* w_tile) {
  const int step = static_cast<int>(blockDim.x) * 16;
  for (int at = static_cast<int>(threadIdx.x) * 16; at < bytes; at += step)
    copy_16_bytes_async(w_tile + at, slots + at);
}

}  // namespace plumb::cuda
