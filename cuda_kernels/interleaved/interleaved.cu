// The kernel multiplies filters by windows of the input, as accurately as fp32 by three products in
// FP16 (few_channels_split.cu), with both operands in shared memory. A tile's input lies there in
// core rows of eight elements, channels of a pixel side by side, so that a tap further on is so
// many core rows further on, and tensor cores read the windows themselves (PTX wgmma, sm_90a). No
// im2col matrix is made, and nothing of the input passes through the registers of consumer warps.
//
// Tiling: a block takes tiles of one or several images, with all their channels or chunk after
//   chunk of them, in two buffers that take turns, and has 64 filters (fewer stand there several
//   times, for rows of outputs below each other). Two consumer warp groups make 64 x 128 sums each;
//   four producer warps load the next tile's input and round it meanwhile, and four epilogue warps
//   write the sums to y. Filters stay in shared memory, or pass through pipeline stages, a k tile
//   of 8 KB each, which one thread has the copy engine fill. Where there are more filters than 64,
//   blocks share them out.
// Bytes: y is written once. x is read once for each group of filters, and again in the rows and
//   columns where tiles overlap. w is read once for each block, or from L2 for each 256 output
//   positions.
// Wins: over streamed_filters.cu, whose warps wait for the windows that they read to registers,
//   where products or outputs are most of the work, by up to half. It loses where filters are few,
//   and where reading is most of the work.
// Measured: docs/kernels/interleaved.md.
#include "cuda_kernels/interleaved/interleaved_kernel.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm interleaved_fp16x3 =
    interleaved_entry<SplitCoreRows>("cuda.conv.interleaved.fp16x3", Operand::fp16);

}  // namespace plumb::cuda
