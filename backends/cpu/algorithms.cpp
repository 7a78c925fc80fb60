// The ordered list of the CPU's convolution algorithms: one line each.
#include "backends/cpu/algorithms.hpp"

#include <array>

#include "cpu_kernels/channels/conv_channels.hpp"
#include "cpu_kernels/direct/conv_direct.hpp"
#include "cpu_kernels/fields/conv_fields.hpp"
#include "cpu_kernels/images/conv_images.hpp"
#include "cpu_kernels/panels/conv_panels.hpp"
#include "cpu_kernels/tiles/conv_tiles.hpp"
#include "cpu_kernels/weights/conv_weights.hpp"
#include "cpu_kernels/weights/conv_weights_tree.hpp"
#include "cpu_kernels/weights/conv_weights_wide.hpp"
#include "cpu_reference/im2col/conv_im2col.hpp"
#include "peers/onednn/conv_onednn.hpp"

namespace plumb {

std::span<const ConvAlgorithm* const> cpu_conv_algorithms() {
  // clang-format off
  static constexpr std::array list{
      &conv_tiles_bf16,
      &conv_fields_fp32,
      &conv_fields_spec_fp32,
      &conv_direct_fp32,
      &conv_panels_fp32,
      &conv_channels_fp32,
      &conv_images_fp32,
      &conv_weights_fp32,
      &conv_weights_wide_fp32,
      &conv_weights_tree_fp32,
      &conv_fields_fp64,
      &conv_fields_spec_fp64,
      &conv_direct_fp64,
      &conv_panels_fp64,
      &conv_channels_fp64,
      &conv_images_fp64,
      &conv_weights_fp64,
      &conv_weights_wide_fp64,
      &conv_weights_tree_fp64,
      &conv_im2col_fp32,
      &conv_im2col_fp64,
      &onednn_conv_best,
      &onednn_conv_nchw,
      &onednn_conv_best_bf16,
  };
  // clang-format on
  return list;
}

}  // namespace plumb
