// Backward weights of many channels (wide_weights.cu) for tensors of f32 as they lie, by mma.sync
// of TF32, whose fragments are read from the stages: in one product, and as accurate as fp32 by
// TF32 halves in three products, made in registers and summed small ones first (Ootomo & Yokota
// 2022).
//
// Tiling: as in wide_weights.cu, in tiles of up to 128×128. In TF32 four warps have 64×64 each, of
//   half of a step's pixels; in three products eight have 64×32. Sums move every 2,048 pixels, of
//   three products every 512.
// Bytes: as in wide_weights.cu. Only tensors that the copy engine cannot read are repacked; planes
//   under one tap are read as they lie.
// Wins: where bytes bound the layer, and in TF32 where there are few filters.
// Measured: docs/kernels/weights.md.
#include "cuda_kernels/wide_weights/wide_weights_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm wide_weights_f32_tf32 =
    wide_weights_entry<WideTf32>("cuda.conv.wide_weights.tf32", Operand::tf32_rounded);
extern const ConvAlgorithm wide_weights_f32_tf32x3 =
    wide_weights_entry<WideTf32x3>("cuda.conv.wide_weights.tf32x3", Operand::tf32_rounded);

}  // namespace plumb::cuda
