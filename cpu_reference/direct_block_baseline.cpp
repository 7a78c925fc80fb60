// The direct convolution for what the compiler takes for granted (SSE2 on x86-64).
#define PLUMB_VECTOR_BYTES 16
#define PLUMB_REGISTERS 16
#include "cpu_reference/direct_block.inl"

namespace plumb {
const DirectKernels direct_kernels_baseline = kernels_here;
}  // namespace plumb
