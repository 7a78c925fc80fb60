// This compiles the convolutions' functions for AVX-512 F, DQ, BW and VL.
#define PLUMB_VECTOR_BYTES 64
#define PLUMB_REGISTERS 32
#include "cpu_kernels/conv/conv_block.inl"

namespace plumb {
const ConvKernelSet conv_kernels_avx512 = kernels_here;
}  // namespace plumb
