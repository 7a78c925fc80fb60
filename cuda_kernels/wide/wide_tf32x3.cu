// The wide kernel (wide.cu) for tensors of f32, as accurate as fp32 by TF32 halves in three
// products (Ootomo & Yokota 2022), which are made in registers: x is read once, as it lies.
//
// Tiling: as in wide.cu, of up to 128 filters; a step is 32 channels and all three products.
// Bytes: x R S times and filters' halves once for each tile, from L2 where they fit there; y once.
// A
//   repacked x is read and written once besides.
// Wins: where memory bounds the layer (1x1). TF32 has half of fp16's rate, so that fp16x3 takes
// less
//   where the products do.
// Measured: docs/kernels/wide.md.
#include "cuda_kernels/wide/wide_entry.cuh"

namespace plumb::cuda {

extern const ConvAlgorithm wide_f32_tf32x3 =
    wide_entry<WideTf32x3>("cuda.conv.wide.tf32x3", Operand::tf32_rounded);

}  // namespace plumb::cuda
