// This compiles the im2col block for AVX-512 F, DQ, BW and VL.
#define Eigen plumb_eigen_avx512  // im2col_block.inl says why
#include <Eigen/Core>

#include "cpu_reference/im2col/im2col_block.inl"

namespace plumb {
const Im2colKernelSet im2col_kernels_avx512 = kernels_here;
}  // namespace plumb
