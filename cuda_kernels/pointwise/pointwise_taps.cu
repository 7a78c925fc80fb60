// Convolutions of few terms (at most 64 channels times taps) under any number of filters, for
// tensors of f16 and bf16: wav2vec's 1 -> 512 of ten taps, a stem's 3 -> 96 of 4x4 / 4. Terms of
// pixels are gathered to registers once for all filters, and outputs leave in whole vectors, also
// in planes of odd length.
//
// Tiling: a block has eight tiles of 64 pixels side by side, and 16 filters at a time; all filters
//   of a group of chunks are in its shared memory.
// Bytes: y once, in runs of 512 pixels; x once for each group, from L2, in single elements.
// Wins: to be measured; many filters of few terms in planes.
// Measured: not yet.
#include "cuda_kernels/pointwise/pointwise_taps_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm pointwise_taps_fp16 =
    taps_entry<PointwiseFp16>("cuda.conv.pointwise_taps.fp16", Operand::fp16);
extern const ConvAlgorithm pointwise_taps_bf16 =
    taps_entry<PointwiseBf16>("cuda.conv.pointwise_taps.bf16", Operand::bf16);

}  // namespace plumb::cuda
