// The kernel of grouped.cu for tensors of bf16.
//
// Tiling, bytes: as in grouped.cu.
// Wins: as in grouped.cu.
// Measured: nothing of bf16 as yet; docs/kernels/grouped.md has f16.
#include "cuda_kernels/grouped/grouped_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm grouped_bf16 =
    grouped_entry<__nv_bfloat16>("cuda.conv.grouped.bf16", Operand::bf16);

}  // namespace plumb::cuda
