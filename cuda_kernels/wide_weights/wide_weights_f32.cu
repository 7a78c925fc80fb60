// Backward weights of many channels (wide_weights.cu) for tensors of f32, scaled by powers of two
// to fp16: in one product, and as accurate as fp32 by halves in three products, summed small ones
// first (Ootomo & Yokota 2022).
//
// Tiling: as in wide_weights.cu, in tiles of up to 128×128, since sums move from the tensor cores'
//   registers to others every 2,048 pixels.
// Bytes: as in wide_weights.cu. x and dy are read twice and written once before.
// Wins: from some 32 channels and filters on.
// Measured: not yet (docs/kernels/weights.md).
#include "cuda_kernels/wide_weights/wide_weights_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm wide_weights_f32_fp16_scaled =
    wide_weights_entry<WideFp16Scaled>("cuda.conv.wide_weights.fp16_scaled", Operand::fp16_scaled);
extern const ConvAlgorithm wide_weights_f32_fp16x3 =
    wide_weights_entry<WideFp16x3>("cuda.conv.wide_weights.fp16x3", Operand::fp16);

}  // namespace plumb::cuda
