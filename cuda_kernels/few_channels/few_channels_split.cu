// The kernel computes the product of few_channels.cu as accurately as fp32. Each operand is scaled
// by a power of two and split into a high and a low fp16, and three of the four products are formed
// (Ootomo & Yokota 2022). The scale is chosen for each filter and for a tile, which keeps the scale
// of the tile before as long as it fits. The low parts are raised by 2^11, so that they keep their
// 11 bits wherever the high ones do, and have sums of their own.
//
// A non-zero value below 2^-28 of the largest of its tile or its filter would lose bits. Tiles that
// hold one are noticed while they are written to shared memory, and are summed with fp32 FMAs
// instead; so are outputs that come out NaN where the input or the filters hold NaN or Inf.
//
// Tiling: that of few_channels.cu.
// Bytes: that of few_channels.cu.
// Wins: over FMAs wherever filters have more than a handful of terms: tensor cores form three
//   products in half the time of one FMA. Tiles summed with FMAs are as slow as direct.cu.
// Measured: docs/kernels/few_channels.md.
#include "cuda_kernels/few_channels/window_kernel.cuh"

namespace plumb::cuda {
namespace {

using Units = WindowKernelConfigs<SplitWindows, 2, 1, 2, 3, 4>;
using TallUnits = WindowKernelConfigs<SplitWindows, 4, 1, 2>;

}  // namespace

extern const ConvAlgorithm few_channels_split_fp16x3 =
    window_entry<Units, Staging::bulk, float>("cuda.conv.few_channels_split.fp16x3", Operand::fp16);
extern const ConvAlgorithm few_channels_split_fp16x3_sm80 =
    window_entry<Units, Staging::async, float>("cuda.conv.few_channels_split.fp16x3.sm80",
                                               Operand::fp16);

extern const ConvAlgorithm few_channels_split_fp16x3_8_rows =
    window_entry<TallUnits, Staging::bulk, float>("cuda.conv.few_channels_split.fp16x3.8_rows",
                                                  Operand::fp16);
extern const ConvAlgorithm few_channels_split_fp16x3_unstaged =
    window_entry<Units, Staging::none, float>("cuda.conv.few_channels_split.fp16x3.unstaged",
                                              Operand::fp16);

}  // namespace plumb::cuda
