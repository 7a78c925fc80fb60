// The wide kernel (wide.cu) for tensors of f32: in TF32, and as accurate as fp32 by fp16 halves in
// three products, summed small ones first (Ootomo & Yokota 2022).
//
// Tiling: as in wide.cu; a step is 32 channels in TF32, and 64 of one of the three products. Planes
//   as they lie go through registers in TF32.
// Bytes: as in wide.cu. For three products x is read twice and its halves are written first.
// Wins: from some 32 channels and filters on.
// Measured: docs/kernels/wide.md.
#include "cuda_kernels/wide/wide_entry.cuh"

namespace plumb::cuda {

// The copy engine rounds x to the nearest TF32 on its way, and packing rounds filters.
extern const ConvAlgorithm wide_f32_tf32 =
    wide_entry<WideTf32>("cuda.conv.wide.tf32", Operand::tf32_rounded);
extern const ConvAlgorithm wide_f32_fp16x3 =
    wide_entry<WideFp16x3>("cuda.conv.wide.fp16x3", Operand::fp16);

}  // namespace plumb::cuda
