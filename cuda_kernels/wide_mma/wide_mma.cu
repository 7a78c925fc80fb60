// Many channels by mma.sync, for tensors of f16 and bf16: an implicit GEMM whose pixels and filters
// come to shared memory by cp.async, some steps ahead. It needs nothing of sm_90.
//
// Tiling: a block has 128 pixels and 128 or 64 filters, eight or four warps with 32 by 64 each; a
//   step of the reduction is 64 channels under a tap, in three stages.
// Bytes: y once; x, from L2, for each tile of filters and each tap; filters for each tile of
//   pixels. x that does not lie channels innermost is repacked before.
// Wins: not known as yet; it is for devices without wgmma.
// Measured: nothing as yet.
#include "cuda_kernels/wide_mma/wide_mma_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm wide_mma_fp16 =
    wide_mma_entry<WideFp16>("cuda.conv.wide_mma.fp16", Operand::fp16);
extern const ConvAlgorithm wide_mma_bf16 =
    wide_mma_entry<WideBf16>("cuda.conv.wide_mma.bf16", Operand::bf16);

}  // namespace plumb::cuda
