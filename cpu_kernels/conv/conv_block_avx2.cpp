// This compiles the convolutions' functions for AVX2 and FMA.
#define PLUMB_VECTOR_BYTES 32
#define PLUMB_REGISTERS 16
#include "cpu_kernels/conv/conv_block.inl"

namespace plumb {
const ConvKernelSet conv_kernels_avx2 = kernels_here;
}  // namespace plumb
