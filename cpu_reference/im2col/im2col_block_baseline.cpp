// This compiles the im2col block for every processor of the architecture.
#define Eigen plumb_eigen_baseline  // im2col_block.inl says why
#include <Eigen/Core>

#include "cpu_reference/im2col/im2col_block.inl"

namespace plumb {
const Im2colKernelSet im2col_kernels_baseline = kernels_here;
}  // namespace plumb
