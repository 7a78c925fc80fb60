// Backward weights of many channels on Hopper's tensor cores, for tensors of f16 and bf16: the copy
// engine loads 64 pixels of dy and of x under some taps to shared memory, and wgmma multiplies
// them across. Tensors are read as they lie where their channels lie side by side, and otherwise
// repacked first.
//
// Tiling: 128×256 or 256×128 filters by channels under taps a block, fewer where there are few; two
//   warpgroups multiply, one thread loads 64 pixels at a time, ahead by up to eight stages. Blocks
//   sum parts of the pixels, which a second kernel adds in a fixed order.
// Bytes: dy and x once for each tile, from L2 where they fit there; the sums of each part, written
//   and read in fp32, but of a single part, which is stored in dw. A repacked tensor is read and
//   written once besides.
// Wins: from some 32 channels and filters on.
// Measured: not yet (docs/kernels/weights.md).
#include "cuda_kernels/wide_weights/wide_weights_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm wide_weights_fp16 =
    wide_weights_entry<WideFp16>("cuda.conv.wide_weights.fp16", Operand::fp16);
extern const ConvAlgorithm wide_weights_bf16 =
    wide_weights_entry<WideBf16>("cuda.conv.wide_weights.bf16", Operand::bf16);

}  // namespace plumb::cuda
