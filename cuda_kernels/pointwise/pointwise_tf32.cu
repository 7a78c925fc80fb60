// The kernel of pointwise.cu for tensors of f32, in TF32.
//
// Tiling: a warp has 32 pixels and 32 filters at a time, and is as in pointwise.cu.
// Bytes: as in pointwise.cu.
// Wins: few filters: 64 -> 2.
// Measured: one H100, NHWC: 64 -> 2 over 8 images of 512x512 0.211 ms, 64 -> 256 over 64 of 56x56
//   0.130.
#include "cuda_kernels/pointwise/pointwise_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm pointwise_f32_tf32 =
    pointwise_entry<PointwiseTf32>("cuda.conv.pointwise.tf32", Operand::tf32_rounded);

}  // namespace plumb::cuda
