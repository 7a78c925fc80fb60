// The ordered list of convolution algorithms, one line each, by families: a folder of cuda_kernels/
// each. An entry is a constant that a .cu there defines; to add one, add its line. Of two that are
// predicted to take the same time the first is chosen.
#include "conv_algorithms.hpp"

#include <array>

namespace plumb::cuda {

// Declares the constant and takes its address in one expression: a block may declare what its
// namespace holds, and a lambda is a block. A list that is not linked to its kernel does not link.
#define PLUMB_ENTRY(name)            \
  ([] {                              \
    extern const ConvAlgorithm name; \
    return &name;                    \
  }())

std::span<const ConvAlgorithm* const> conv_algorithms() {
  // clang-format off
  static const std::array list{
      // fields/: few channels and filters in one to three dimensions, with any boundary.
      PLUMB_ENTRY(fields_fp32),
      PLUMB_ENTRY(fields_fp64),
      PLUMB_ENTRY(fields_spec_fp32),
      PLUMB_ENTRY(fields_spec_fp64),
      // toeplitz/: large filters of few channels, as Toeplitz matrices on tensor cores of Hopper.
      PLUMB_ENTRY(toeplitz_fp16x3),
      PLUMB_ENTRY(toeplitz_fp16_scaled),
      // depthwise/: filters of one channel, in one to three dimensions, with any boundary.
      PLUMB_ENTRY(depthwise_fp16_toeplitz),  // depthwise_toeplitz/: on tensor cores
      PLUMB_ENTRY(depthwise_bf16_toeplitz),
      PLUMB_ENTRY(depthwise_fp32_march),
      PLUMB_ENTRY(depthwise_fp32_planes),
      PLUMB_ENTRY(depthwise_fp32_channels),
      PLUMB_ENTRY(depthwise_fp64_march),
      PLUMB_ENTRY(depthwise_fp64_planes),
      PLUMB_ENTRY(depthwise_fp64_channels),
      // depthwise_weights/: backward weights of filters of one channel.
      PLUMB_ENTRY(depthwise_weights_fp32),
      PLUMB_ENTRY(depthwise_weights_fp64),
      // weights/: backward weights of few channels, in one to three dimensions.
      PLUMB_ENTRY(weights_fp32),
      PLUMB_ENTRY(weights_fp64),
      // fma/: sums in fp32 or fp64 FMAs, of any problem; few_terms and few_filters of few terms.
      PLUMB_ENTRY(few_terms_fp32),
      PLUMB_ENTRY(few_filters_fp32),
      PLUMB_ENTRY(register_tile_fp32_12_filters),
      PLUMB_ENTRY(register_tile_fp32_8_filters),
      PLUMB_ENTRY(register_tile_fp32_4_filters),
      PLUMB_ENTRY(register_tile_fp32_2x2),
      PLUMB_ENTRY(register_tile_fp32_4_images),
      PLUMB_ENTRY(implicit_gemm_fp32_16x16),
      PLUMB_ENTRY(implicit_gemm_fp32_32x32),
      PLUMB_ENTRY(implicit_gemm_fp32_8x8),
      PLUMB_ENTRY(im2col_gemm_fp32_16x16),
      PLUMB_ENTRY(im2col_gemm_fp32_32x32),
      PLUMB_ENTRY(im2col_gemm_fp32_8x8),
      PLUMB_ENTRY(direct_fp32),
      PLUMB_ENTRY(direct_unrolled_fp32_both),
      PLUMB_ENTRY(direct_unrolled_fp32_columns),
      PLUMB_ENTRY(direct_unrolled_fp32_restrict),
      PLUMB_ENTRY(implicit_gemm_fp64_16x16),
      PLUMB_ENTRY(direct_fp64),
      PLUMB_ENTRY(weights_tree_fp32),
      PLUMB_ENTRY(weights_tree_fp64),
      // interleaved/: warp-specialised tensor cores of Hopper, both operands in shared memory.
      PLUMB_ENTRY(interleaved_fp16x3),
      PLUMB_ENTRY(interleaved_half_fp16_scaled),
      PLUMB_ENTRY(interleaved_half_fp16),
      PLUMB_ENTRY(interleaved_half_bf16),
      // streamed_filters/: tensor cores, filters of any number and size stream through shared memory.
      PLUMB_ENTRY(streamed_filters_fp16x3),
      PLUMB_ENTRY(streamed_filters_tf32),
      PLUMB_ENTRY(streamed_filters_fp16),
      PLUMB_ENTRY(streamed_filters_bf16),
      PLUMB_ENTRY(streamed_filters_fp16x3_sm80),
      PLUMB_ENTRY(streamed_filters_tf32_sm80),
      PLUMB_ENTRY(streamed_filters_fp16_sm80),
      PLUMB_ENTRY(streamed_filters_bf16_sm80),
      // few_channels/: tensor cores, all filters of a group stay in shared memory.
      PLUMB_ENTRY(few_channels_split_fp16x3),
      PLUMB_ENTRY(few_channels_split_fp16x3_8_rows),
      PLUMB_ENTRY(few_channels_split_fp16x3_unstaged),
      PLUMB_ENTRY(few_channels_split_fp16x3_sm80),
      PLUMB_ENTRY(few_channels_tf32),
      PLUMB_ENTRY(few_channels_tf32_8_rows),
      PLUMB_ENTRY(few_channels_tf32_unstaged),
      PLUMB_ENTRY(few_channels_tf32_sm80),
      PLUMB_ENTRY(few_channels_half_fp16),
      PLUMB_ENTRY(few_channels_half_fp16_8_rows),
      PLUMB_ENTRY(few_channels_half_fp16_sm80),
      PLUMB_ENTRY(few_channels_half_fp16_scaled),
      PLUMB_ENTRY(few_channels_half_fp16_scaled_8_rows),
      PLUMB_ENTRY(few_channels_half_fp16_scaled_sm80),
      PLUMB_ENTRY(few_channels_half_bf16),
      PLUMB_ENTRY(few_channels_half_bf16_sm80),
      // wide/: many channels, im2col by the copy engine and tensor cores of Hopper.
      PLUMB_ENTRY(wide_fp16),
      PLUMB_ENTRY(wide_bf16),
      PLUMB_ENTRY(wide_f32_tf32),
      PLUMB_ENTRY(wide_f32_fp16x3),
      PLUMB_ENTRY(wide_f32_tf32x3),
      // wide_mma/: many channels by mma.sync, of doubles and on devices without wgmma.
      PLUMB_ENTRY(wide_mma_fp16),
      PLUMB_ENTRY(wide_mma_bf16),
      PLUMB_ENTRY(wide_mma_f32_tf32),
      PLUMB_ENTRY(wide_mma_f64_fp64),
      // wide_patch/: many channels, taps as shifts of patches of x in shared memory.
      PLUMB_ENTRY(wide_patch_fp16),
      PLUMB_ENTRY(wide_patch_bf16),
      PLUMB_ENTRY(wide_patch_f32_tf32),
      PLUMB_ENTRY(wide_patch_fp16_strided),
      PLUMB_ENTRY(wide_patch_bf16_strided),
      PLUMB_ENTRY(wide_patch_f32_tf32_strided),
      // pointwise/: filters of one tap, x straight from global memory to registers.
      PLUMB_ENTRY(pointwise_fp16),
      PLUMB_ENTRY(pointwise_bf16),
      PLUMB_ENTRY(pointwise_f32_tf32),
      PLUMB_ENTRY(pointwise_f32_tf32x3),
      PLUMB_ENTRY(pointwise_taps_fp16),
      PLUMB_ENTRY(pointwise_taps_bf16),
      PLUMB_ENTRY(pointwise_taps_f32_tf32),
      PLUMB_ENTRY(pointwise_taps_f32_tf32x3),
      // grouped/: groups of few channels, each group's channels by its own filters alone.
      PLUMB_ENTRY(grouped_fp16),
      PLUMB_ENTRY(grouped_bf16),
      PLUMB_ENTRY(grouped_f32_tf32),
      // few_weights/: backward weights of few channels on tensor cores.
      PLUMB_ENTRY(few_weights_fp16),
      PLUMB_ENTRY(few_weights_bf16),
      PLUMB_ENTRY(few_weights_fp16_scaled),
      PLUMB_ENTRY(few_weights_fp16x3),
      // octet_weights/: the same of many taps, by wgmma.
      PLUMB_ENTRY(octet_weights_fp16x3),

      // wide_weights/: backward weights of many channels, likewise.
      PLUMB_ENTRY(wide_weights_fp16),
      PLUMB_ENTRY(wide_weights_bf16),
      PLUMB_ENTRY(wide_weights_f32_fp16_scaled),
      PLUMB_ENTRY(wide_weights_f32_fp16x3),
      PLUMB_ENTRY(wide_weights_f32_tf32),
      PLUMB_ENTRY(wide_weights_f32_tf32x3),
#ifdef PLUMB_LADDER
      // ladder/: techniques that are here to be taught and measured.
      PLUMB_ENTRY(shared_tile_fp32_16x16),
      PLUMB_ENTRY(shared_tile_fp32_32x32),
      PLUMB_ENTRY(shared_tile_fp32_8x8),
      PLUMB_ENTRY(shared_tile_fp32_16x16_padded),
      PLUMB_ENTRY(shared_tile_fp32_32x32_padded),
      PLUMB_ENTRY(shared_tile_fp32_8x8_padded),
      PLUMB_ENTRY(constant_filters_fp32),
      PLUMB_ENTRY(shared_tile_constant_fp32_16x16),
      PLUMB_ENTRY(shared_tile_constant_fp32_32x32),
      PLUMB_ENTRY(shared_tile_constant_fp32_8x8),
      PLUMB_ENTRY(shared_tile_constant_fp32_16x16_copied),
      PLUMB_ENTRY(shared_tile_constant_fp32_32x32_copied),
      PLUMB_ENTRY(shared_tile_constant_fp32_8x8_copied),
      PLUMB_ENTRY(narrow_fragments_tf32_8),
      PLUMB_ENTRY(narrow_fragments_tf32_16),
      PLUMB_ENTRY(narrow_fragments_tf32_24),
      PLUMB_ENTRY(index_reuse_fp16_16),
      PLUMB_ENTRY(index_reuse_fp16_32),
      PLUMB_ENTRY(tensor_core_tf32_32x32),
      PLUMB_ENTRY(tensor_core_tf32_16x16),
      PLUMB_ENTRY(tensor_core_fp16_32x32),
      PLUMB_ENTRY(tensor_core_fp16_16x16),
      PLUMB_ENTRY(half2_fp16),
      PLUMB_ENTRY(scatter_atomics_fp32),
#endif
      PLUMB_ENTRY(cudnn_best_fp64),
      PLUMB_ENTRY(cudnn_best_fp32),
      PLUMB_ENTRY(cudnn_best_tf32),
      PLUMB_ENTRY(cudnn_deterministic_fp64),
      PLUMB_ENTRY(cudnn_deterministic_fp32),
      PLUMB_ENTRY(cudnn_deterministic_tf32),
      PLUMB_ENTRY(cudnn_sum_fp64),
      PLUMB_ENTRY(cudnn_sum_fp32),
      PLUMB_ENTRY(cudnn_sum_tf32),
  };
  // clang-format on
  return list;
}

}  // namespace plumb::cuda
