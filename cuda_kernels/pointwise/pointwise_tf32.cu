// The kernel of pointwise.cu for tensors of f32, in TF32.
//
// Tiling: a warp has 32 pixels and 32 filters at a time, and is as in pointwise.cu.
// Bytes: as in pointwise.cu.
// Wins: not known as yet.
// Measured: nothing as yet.
#include "cuda_kernels/pointwise/pointwise_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm pointwise_f32_tf32 =
    pointwise_entry<PointwiseTf32>("cuda.conv.pointwise.tf32", Operand::tf32_rounded);

}  // namespace plumb::cuda
