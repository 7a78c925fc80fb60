// The kernel of wide_mma.cu for tensors of f64, on tensor cores that take doubles.
//
// Tiling: a block has 64 pixels and 64 filters, four warps with 32 by 32 each; a step of the
//   reduction is 16 channels under a tap, in four stages.
// Bytes: as in wide_mma.cu.
// Wins: not known as yet; it is for many channels.
// Measured: nothing as yet.
#include "cuda_kernels/wide_mma/wide_mma_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm wide_mma_f64_fp64 =
    wide_mma_entry<WideFp64>("cuda.conv.wide_mma.fp64", Operand::fp64);

}  // namespace plumb::cuda
