// Filters of one tap where memory bounds the layer, for tensors of f16 and bf16: x goes straight to
// the registers that mma.sync reads, as vectors of channels or of pixels, whichever lie side by
// side, and so do outputs to y.
//
// Tiling: a warp has 64 pixels and 32 filters at a time, eight where there are no more; twelve
//   warps, sixteen of eight filters, share the filters of a block in shared memory and no barrier.
// Bytes: y once; x once for each group of filters that a block holds, from memory or L2, and once
//   for each 32 filters from L1 where there are more than 64 channels.
// Wins: few channels or filters: 64 -> 2, 16 -> 96.
// Measured: one H100, FP16, NHWC: 64 -> 2 over 8 images of 512x512 0.110 ms, 64 -> 256 over 64 of
// 56x56
//   0.066.
#include "cuda_kernels/pointwise/pointwise_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm pointwise_fp16 =
    pointwise_entry<PointwiseFp16>("cuda.conv.pointwise.fp16", Operand::fp16);
extern const ConvAlgorithm pointwise_bf16 =
    pointwise_entry<PointwiseBf16>("cuda.conv.pointwise.bf16", Operand::bf16);

}  // namespace plumb::cuda
