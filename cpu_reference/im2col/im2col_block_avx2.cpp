// This compiles the im2col block for AVX2 and FMA.
#define Eigen plumb_eigen_avx2  // im2col_block.inl says why
#include <Eigen/Core>

#include "cpu_reference/im2col/im2col_block.inl"

namespace plumb {
const Im2colKernelSet im2col_kernels_avx2 = kernels_here;
}  // namespace plumb
