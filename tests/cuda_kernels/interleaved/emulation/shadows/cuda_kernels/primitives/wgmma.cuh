// wgmma of core matrices in shared memory, emulated.
#pragma once

#include "cuda_kernels/toeplitz/emulation/shadows/cuda_kernels/primitives/wgmma.cuh"

namespace plumb::cuda {

template <class Operand>
void wgmma_shared(float (&sums)[64], std::uint32_t a, std::uint32_t b, int add) {
  constexpr std::uint64_t n8_tiles_apart = std::uint64_t{128 / 16} << 32;
  wgmma_strided<Operand>(sums, n8_tiles_apart | a, n8_tiles_apart | b, add);
}

}  // namespace plumb::cuda
