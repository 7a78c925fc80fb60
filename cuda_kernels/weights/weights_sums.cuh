// The sums of one thread: products of neighbouring positions with some filters and lines of taps.
#pragma once

#include "cuda_kernels/weights/weights.hpp"

namespace plumb::cuda::weights {

/// Reads the gradients of a step, which begin at a multiple of 16 bytes.
__device__ inline void load_step(float (&to)[weights_step], const float* from) {
  const float4 all = *reinterpret_cast<const float4*>(from);
  to[0] = all.x, to[1] = all.y, to[2] = all.z, to[3] = all.w;
}
__device__ inline void load_step(double (&to)[weights_step], const double* from) {
  const auto* const pairs = reinterpret_cast<const double2*>(from);
  const double2 first = pairs[0], second = pairs[1];
  to[0] = first.x, to[1] = first.y, to[2] = second.x, to[3] = second.y;
}

template <class Real, int filters, int lines, int taps>
struct ThreadSums {
  Real sum[filters][lines][taps] = {};

  /// The sums of filter `round / lines` and of its line `round % lines`. Registers have no index.
  __device__ void pick(Real (&to)[taps], int round) const {
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) to[tap] = sum[0][0][tap];
#pragma unroll
    for (int i = 1; i < filters * lines; ++i)
#pragma unroll
      for (int tap = 0; tap < taps; ++tap)
        to[tap] = i == round ? sum[i / lines][i % lines][tap] : to[tap];
  }

  /// Adds steps `first`, `first + every`, ... of a unit. `starts` says where the input of each
  /// begins, `offsets` where the lines do from there; filters are `pitch` elements apart.
  __device__ void add(const Real* x, const Real* dy, const int* starts, const int (&offsets)[lines],
                      int pitch, int first, int every, int steps) {
    for (int step = first; step < steps; step += every) {
      const Real* const input = x + starts[step];
      Real gradient[filters][weights_step];
#pragma unroll
      for (int k = 0; k < filters; ++k)
        load_step(gradient[k], dy + k * pitch + step * weights_step);
#pragma unroll
      for (int line = 0; line < lines; ++line) {
        const Real* const from = input + offsets[line];
        Real window[weights_step + taps - 1];
#pragma unroll
        for (int i = 0; i < weights_step + taps - 1; ++i) window[i] = from[i];
#pragma unroll
        for (int q = 0; q < weights_step; ++q)
#pragma unroll
          for (int k = 0; k < filters; ++k)
#pragma unroll
            for (int tap = 0; tap < taps; ++tap)
              sum[k][line][tap] = fma(gradient[k][q], window[q + tap], sum[k][line][tap]);
      }
    }
  }
};

}  // namespace plumb::cuda::weights
