// The kernel computes the product of few_channels.cu in FP16, for tensors of f32 and f16, and in
// BF16, for tensors of bf16. A register holds two taps, and one step of the product takes two rows
// of a filter. f32 that is scaled first, as in few_channels_split.cu, is rounded as in TF32 and
// loses no range.
//
// Tiling: that of few_channels.cu.
// Bytes: that of few_channels.cu.
// Wins: where products and not bytes are the limit, because it takes half the steps and half the
//   reads of shared memory. Tensors that are stored in 16 bits lose nothing by it.
// Measured: docs/kernels/few_channels.md.
#include "cuda_kernels/few_channels/window_kernel.cuh"

namespace plumb::cuda {
namespace {

using Fp16Units = WindowKernelConfigs<HalfWindows<__half>, 2, 1, 2, 3, 4, 6, 8>;
using Fp16TallUnits = WindowKernelConfigs<HalfWindows<__half>, 4, 1, 2, 3, 4>;
using ScaledUnits = WindowKernelConfigs<ScaledWindows, 2, 1, 2, 3, 4, 6, 8>;
using ScaledTallUnits = WindowKernelConfigs<ScaledWindows, 4, 1, 2, 3, 4>;
using Bf16Units = WindowKernelConfigs<HalfWindows<__nv_bfloat16>, 2, 1, 2, 4, 6, 8>;

}  // namespace

extern const ConvAlgorithm few_channels_half_fp16 =
    window_entry<Fp16Units, Staging::bulk, float, __half>("cuda.conv.few_channels_half.fp16",
                                                          Operand::fp16);
extern const ConvAlgorithm few_channels_half_bf16 =
    window_entry<Bf16Units, Staging::bulk, __nv_bfloat16>("cuda.conv.few_channels_half.bf16",
                                                          Operand::bf16);
extern const ConvAlgorithm few_channels_half_fp16_sm80 =
    window_entry<Fp16Units, Staging::async, float, __half>("cuda.conv.few_channels_half.fp16.sm80",
                                                           Operand::fp16);
extern const ConvAlgorithm few_channels_half_bf16_sm80 =
    window_entry<Bf16Units, Staging::async, __nv_bfloat16>("cuda.conv.few_channels_half.bf16.sm80",
                                                           Operand::bf16);

extern const ConvAlgorithm few_channels_half_fp16_8_rows =
    window_entry<Fp16TallUnits, Staging::bulk, float, __half>(
        "cuda.conv.few_channels_half.fp16.8_rows", Operand::fp16);

extern const ConvAlgorithm few_channels_half_fp16_scaled =
    window_entry<ScaledUnits, Staging::bulk, float>("cuda.conv.few_channels_half.fp16_scaled",
                                                    Operand::fp16_scaled);
extern const ConvAlgorithm few_channels_half_fp16_scaled_8_rows =
    window_entry<ScaledTallUnits, Staging::bulk, float>(
        "cuda.conv.few_channels_half.fp16_scaled.8_rows", Operand::fp16_scaled);
extern const ConvAlgorithm few_channels_half_fp16_scaled_sm80 =
    window_entry<ScaledUnits, Staging::async, float>("cuda.conv.few_channels_half.fp16_scaled.sm80",
                                                     Operand::fp16_scaled);

}  // namespace plumb::cuda
