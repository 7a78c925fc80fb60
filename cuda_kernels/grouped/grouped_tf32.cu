// The kernel of grouped.cu for tensors of f32, in TF32: a unit is four channels.
//
// Tiling, bytes: as in grouped.cu.
// Wins: as in grouped.cu.
// Measured: docs/kernels/grouped.md.
#include "cuda_kernels/grouped/grouped_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm grouped_f32_tf32 =
    grouped_entry<float>("cuda.conv.grouped.tf32", Operand::tf32_rounded);

}  // namespace plumb::cuda
