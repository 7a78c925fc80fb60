// wgmma of rows of A that lie side by side, emulated.
#pragma once

#include "cuda_kernels/primitives/wgmma.cuh"

namespace plumb::cuda {

inline constexpr int wgmma_across_bytes = 16 * 128;

template <class Operand, int n8_tiles>
void wgmma_across(float (&sums)[4 * n8_tiles], WgmmaMatrix a, WgmmaMatrix b, int add) {
  constexpr int terms = 16;
  const int lane = static_cast<int>(threadIdx.x % 32),
            warp = static_cast<int>(threadIdx.x / 32 % 4);
  float rows[2][terms];
  for (int half = 0; half < 2; ++half)
    for (int term = 0; term < terms; ++term)  // a row of shared memory is a term
      rows[half][term] = wgmma_term<Operand>(a, term, 16 * warp + lane / 4 + 8 * half);
  for (int j = 0; j < n8_tiles; ++j)
    for (int i = 0; i < 2; ++i) {
      float column[terms];
      for (int term = 0; term < terms; ++term)
        column[term] = wgmma_term<Operand>(b, 8 * j + lane % 4 * 2 + i, term);
      for (int half = 0; half < 2; ++half) {
        float& to = sums[4 * j + 2 * half + i];
        double sum = add ? to : 0;
        for (int term = 0; term < terms; ++term)
          sum += static_cast<double>(rows[half][term]) * column[term];
        to = static_cast<float>(sum);
      }
    }
}

}  // namespace plumb::cuda
