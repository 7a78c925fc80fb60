// Few channels as the product of an image's windows with shifted filters, on tensor cores in TF32:
// the row of the image that lies under two neighbouring outputs is a row of one matrix, each filter
// row, as it stands for the one output and for the other, two columns of the other. Nothing is
// unrolled, 7 of 8 multiplications are the convolution's own where filters are 7 wide, and what a
// lane gets are squares of 2x2 outputs. docs/kernels/few_channels.md has the picture.
//
// Tiling: a block of 8 warps keeps a group of packed filters and the input under a tile in shared
//   memory: images, or strips of rows, all channels. A warp makes 8 windows at 4 rows of outputs
//   (8_rows: at 8) for all the group's filters; with more than one channel and on a Hopper four
//   warps multiply together (wgmma). Blocks stay and take tile after tile; where rows are
//   multiples of 16 bytes the next tile's input is copied meanwhile, by the copy engine or (sm80)
//   by cp.async.
// Bytes: y once (pooled: a quarter of it), x once for each group of filters, from L2 but the first
//   time, and the rows where tiles overlap; w once, packed, and from L2 once for each block.
// Wins: over narrow_fragments.cu, which adds two addresses for each element of a fragment where
//   this adds one for a whole row of taps, and reads an element for each row of the filter where
//   this keeps it in a register.
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
