// The kernel of pointwise.cu for tensors of f32, as accurate as fp32 by TF32 halves in three
// products (Ootomo & Yokota 2022): those of x are made in registers, those of filters by packing.
//
// Tiling: as in pointwise_tf32.cu.
// Bytes: as in pointwise.cu, of filters twice as many.
// Wins: not known as yet.
// Measured: one H100, NHWC: 64 -> 2 over 8 images of 512x512 0.211 ms, 64 -> 256 over 64 of 56x56
//   0.133.
#include "cuda_kernels/pointwise/pointwise_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm pointwise_f32_tf32x3 =
    pointwise_entry<PointwiseTf32x3>("cuda.conv.pointwise.tf32x3", Operand::tf32_rounded);

}  // namespace plumb::cuda
