// This compiles the convolutions' functions for what compilers assume by default (SSE2 on x86-64).
#define PLUMB_VECTOR_BYTES 16
#define PLUMB_REGISTERS 16
#include "cpu_kernels/conv/conv_block.inl"

namespace plumb {
const ConvKernelSet conv_kernels_baseline = kernels_here;
}  // namespace plumb
