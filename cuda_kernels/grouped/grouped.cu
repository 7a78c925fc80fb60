// Grouped convolutions of few channels a group, for tensors of f16: tensor cores multiply each
// group's channels by its own filters, of x under a tile of outputs in shared memory.
//
// Tiling: a warp has 64 pixels and 16 filters at a time, or 32 and 32 of larger groups; a block
//   some 16 to 64 filters, whose channels lie side by side, and one tile of outputs after the
//   other.
// Bytes: y once; x once, and the halo of tiles from L2; filters once for each block.
// Wins: planes (NCHW) of groups of 4 to 32 channels, and NHWC of stride 1.
// Measured: docs/kernels/grouped.md.
#include "cuda_kernels/grouped/grouped_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm grouped_fp16 =
    grouped_entry<__half>("cuda.conv.grouped.fp16", Operand::fp16);

}  // namespace plumb::cuda
