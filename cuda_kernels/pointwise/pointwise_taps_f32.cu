// The kernel of pointwise_taps.cu for tensors of f32, in TF32, and as accurate as fp32 by TF32
// halves in three products.
//
// Tiling: a block has eight tiles of 32 pixels, and 16 filters at a time.
// Bytes: as in pointwise_taps.cu.
// Wins: to be measured.
// Measured: not yet.
#include "cuda_kernels/pointwise/pointwise_taps_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm pointwise_taps_f32_tf32 =
    taps_entry<PointwiseTf32>("cuda.conv.pointwise_taps.tf32", Operand::tf32_rounded);
extern const ConvAlgorithm pointwise_taps_f32_tf32x3 =
    taps_entry<PointwiseTf32x3>("cuda.conv.pointwise_taps.tf32x3", Operand::tf32_rounded);

}  // namespace plumb::cuda
