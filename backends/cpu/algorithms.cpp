// The ordered list of the CPU's convolution algorithms: one line each.
#include "backends/cpu/algorithms.hpp"

#include <array>

#include "cpu_reference/conv_im2col.hpp"

namespace plumb {

std::span<const ConvAlgorithm* const> cpu_conv_algorithms() {
  static constexpr std::array list{
      &conv_im2col_fp32,
      &conv_im2col_fp64,
  };
  return list;
}

}  // namespace plumb
