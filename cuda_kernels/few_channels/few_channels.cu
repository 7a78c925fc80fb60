// The kernel multiplies an image's windows by shifted filters on tensor cores, in TF32, for few
// channels. A row of A is the part of an image row under two neighbouring outputs; each filter row
// is two columns of B, one for each of the two outputs, shifted by one element. No im2col matrix is
// made, 7 of 8 multiplications are the convolution's own where filters are 7 wide, and a lane gets
// squares of 2x2 outputs. docs/kernels/few_channels.md has the picture.
//
// Tiling: a block of 8 warps keeps a group of packed filters and the input under a tile in shared
//   memory: images, or strips of rows, with all channels. A warp makes 8 windows at 4 rows of
//   outputs (8_rows: at 8) for all the group's filters; with more than one channel and on a Hopper
//   four warps multiply together (wgmma). Blocks are persistent and take tile after tile; where
//   rows are multiples of 16 bytes the copy engine or (sm80) cp.async copies the next tile's input
//   meanwhile.
// Bytes: y is written once (pooled: a quarter of it). x is read once for each group of filters,
//   from L2 but the first time, and again in the rows where tiles overlap. Packed w is read once,
//   and from L2 once for each block.
// Wins: over narrow_fragments.cu, which adds two addresses for each element of a fragment and reads
//   an element for each row of the filter. This kernel adds one address for a whole row of taps and
//   keeps the element in a register.
// Measured: docs/kernels/few_channels.md.
#include "cuda_kernels/few_channels/window_kernel.cuh"

namespace plumb::cuda {
namespace {

using Units = WindowKernelConfigs<Tf32Windows, 2, 1, 2, 3, 4, 6, 8>;
using TallUnits = WindowKernelConfigs<Tf32Windows, 4, 1, 2, 3>;

}  // namespace

extern const ConvAlgorithm few_channels_tf32 =
    window_entry<Units, Staging::bulk, float>("cuda.conv.few_channels.tf32", Operand::tf32_rounded);
extern const ConvAlgorithm few_channels_tf32_sm80 = window_entry<Units, Staging::async, float>(
    "cuda.conv.few_channels.tf32.sm80", Operand::tf32_rounded);
extern const ConvAlgorithm few_channels_tf32_unstaged = window_entry<Units, Staging::none, float>(
    "cuda.conv.few_channels.tf32.unstaged", Operand::tf32_rounded);

extern const ConvAlgorithm few_channels_tf32_8_rows = window_entry<TallUnits, Staging::bulk, float>(
    "cuda.conv.few_channels.tf32.8_rows", Operand::tf32_rounded);

}  // namespace plumb::cuda
