// wgmma of other numbers of columns, emulated.
#pragma once

#include "cuda_kernels/primitives/wgmma.cuh"

namespace plumb::cuda {

template <class Operand, int n8_tiles, WgmmaTerms of_b = WgmmaTerms::along>
void wgmma_columns(float (&sums)[4 * n8_tiles], WgmmaMatrix a, WgmmaMatrix b, int add) {
  static_assert(n8_tiles % 8 == 0 || n8_tiles == 26 || n8_tiles == 27 || n8_tiles == 29 ||
                n8_tiles == 31);
  wgmma_swizzled<Operand, n8_tiles, WgmmaTerms::along, of_b>(sums, a, b, add);
}

}  // namespace plumb::cuda
