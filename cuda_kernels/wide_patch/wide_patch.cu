// Convolutions of many channels on Hopper's tensor cores, for tensors of f16 and bf16:
// the pixels under a tile and its halo come to shared memory once, and a tap is a shift of the rows
// that wgmma reads. Strides of rows and columns are entries of their own, of the same kernels.
//
// Tiling: 64 filters by up to 256 positions of a patch, of which each line's last few are not
//   stored. Two warpgroups take tiles in turns, so that one's outputs leave while the other
//   multiplies; two threads load patches of 64 channels and filters of 64 channels under a tap.
// Bytes: y once; x once for each 64 filters and besides the halo, w once for each tile, from L2
//   where they fit there, or once for each block. A repacked x is read and written once besides.
// Wins: 64 filters under 3×3, few channels a group, volumes, planes; not images of few tiles, nor
//   1×1 with channels innermost.
// Measured: docs/kernels/wide.md.
#include "cuda_kernels/wide_patch/wide_patch_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm wide_patch_fp16 =
    wide_patch_entry<WideFp16, WideFp16Across>("cuda.conv.wide_patch.fp16", Operand::fp16);
extern const ConvAlgorithm wide_patch_bf16 =
    wide_patch_entry<WideBf16, WideBf16Across>("cuda.conv.wide_patch.bf16", Operand::bf16);
extern const ConvAlgorithm wide_patch_fp16_strided =
    wide_patch_entry<WideFp16, WideFp16Across, true>("cuda.conv.wide_patch.fp16.strided",
                                                     Operand::fp16);
extern const ConvAlgorithm wide_patch_bf16_strided =
    wide_patch_entry<WideBf16, WideBf16Across, true>("cuda.conv.wide_patch.bf16.strided",
                                                     Operand::bf16);

}  // namespace plumb::cuda
