// Runs of floats are read and written in vectors where their alignment allows it.
#pragma once

#include <cstdint>

namespace plumb::cuda {

/// Reads `count` neighbouring values in vectors of `width`, 1, 2 or 4, which `from` is aligned for.
template <int width, int count>
__device__ void read_vectors(const float* from, float (&to)[count]) {
  static_assert(count % width == 0);
#pragma unroll
  for (int i = 0; i < count; i += width) {
    if constexpr (width == 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + i);
      to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
    } else if constexpr (width == 2) {
      const float2 two = *reinterpret_cast<const float2*>(from + i);
      to[i] = two.x, to[i + 1] = two.y;
    } else {
      to[i] = from[i];
    }
  }
}

/// Writes the first `left` of `values`, or all of them, `step` elements apart. It uses vectors of
/// `vector` elements, which `to` is aligned for, where it writes all values.
template <int count>
__device__ void write_row(float* to, int step, int left, int vector, const float (&values)[count]) {
  if constexpr (count % 4 == 0) {
    if (vector == 4 && left >= count) {
#pragma unroll
      for (int i = 0; i < count; i += 4)
        *reinterpret_cast<float4*>(to + i) = {values[i], values[i + 1], values[i + 2],
                                              values[i + 3]};
      return;
    }
  }
  if constexpr (count % 2 == 0) {
    if (vector >= 2 && left >= count) {
#pragma unroll
      for (int i = 0; i < count; i += 2)
        *reinterpret_cast<float2*>(to + i) = {values[i], values[i + 1]};
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < count; ++i)
    if (i < left) to[i * step] = values[i];
}

}  // namespace plumb::cuda
