// The kernel of wide_mma.cu for tensors of f32, in TF32.
//
// Tiling: as in wide_mma.cu, with 32 channels a step.
// Bytes: as in wide_mma.cu.
// Wins: not known as yet; it is for devices without wgmma.
// Measured: nothing as yet.
#include "cuda_kernels/wide_mma/wide_mma_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm wide_mma_f32_tf32 =
    wide_mma_entry<WideTf32>("cuda.conv.wide_mma.tf32", Operand::tf32_rounded);

}  // namespace plumb::cuda
