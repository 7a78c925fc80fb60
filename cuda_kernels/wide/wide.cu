// Implicit GEMM of many channels on Hopper's tensor cores, for tensors of f16 and bf16: the copy
// engine makes the rows of im2col in shared memory, and wgmma takes both operands from there. x is
// read as it lies where its channels lie side by side, and otherwise repacked first.
//
// Tiling: 128×256 or 256×128 outputs a block, fewer where there are few; two warpgroups multiply,
//   one thread loads 64 channels under a tap at a time, ahead by up to eight stages. Where tiles do
//   not fill the device, several blocks sum parts of an output's terms, added in a fixed order.
// Bytes: y once. x R S times and w once for each tile, from L2 where they fit there. A repacked x
//   is read and written once besides.
// Wins: from some 32 channels and filters on.
// Measured: docs/kernels/wide.md.
#include "cuda_kernels/wide/wide_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm wide_fp16 = wide_entry<WideFp16>("cuda.conv.wide.fp16", Operand::fp16);
extern const ConvAlgorithm wide_bf16 = wide_entry<WideBf16>("cuda.conv.wide.bf16", Operand::bf16);

}  // namespace plumb::cuda
