// The kernel of wide_patch.cu for tensors of f32, in TF32: steps and patches have 32 channels.
//
// Tiling, bytes: as in wide_patch.cu.
// Wins: as in wide_patch.cu.
// Measured: docs/kernels/wide.md.
#include "cuda_kernels/wide_patch/wide_patch_entry.cuh"

namespace plumb::cuda {

// The copy engine rounds x to the nearest TF32 on its way, and packing rounds filters.
extern const ConvAlgorithm wide_patch_f32_tf32 =
    wide_patch_entry<WideTf32>("cuda.conv.wide_patch.tf32", Operand::tf32_rounded);
extern const ConvAlgorithm wide_patch_f32_tf32_strided = wide_patch_entry<WideTf32, WideTf32, true>(
    "cuda.conv.wide_patch.tf32.strided", Operand::tf32_rounded);

}  // namespace plumb::cuda
