// The kernel computes the product of interleaved.cu in FP16 and BF16, for tensors of f16 and bf16.
// For tensors of f32 it scales them first, as interleaved.cu does, and keeps the digits of TF32. A
// core row has one part, and a k step is one product.
//
// Tiling: that of interleaved.cu. Its sums leave registers for eight producer warps.
// Bytes: that of interleaved.cu.
// Wins: over streamed_filters.cu and few_channels_half.cu where products are most of the work.
// Measured: docs/kernels/interleaved.md.
#include "cuda_kernels/interleaved/interleaved_kernel.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm interleaved_half_fp16 =
    interleaved_entry<HalfCoreRows<__half>>("cuda.conv.interleaved_half.fp16", Operand::fp16);
extern const ConvAlgorithm interleaved_half_bf16 = interleaved_entry<HalfCoreRows<__nv_bfloat16>>(
    "cuda.conv.interleaved_half.bf16", Operand::bf16);
extern const ConvAlgorithm interleaved_half_fp16_scaled = interleaved_entry<ScaledCoreRows>(
    "cuda.conv.interleaved_half.fp16_scaled", Operand::fp16_scaled);

}  // namespace plumb::cuda
