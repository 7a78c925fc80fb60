// The ordered list of convolution algorithms, one line each.
#include "conv_algorithms.hpp"

#include <array>

#include "kokkos_kernels/conv_algorithms.hpp"

namespace plumb::kokkos {

std::span<const ConvAlgorithm* const> conv_algorithms() {
  static constexpr std::array list{
      &team_tile_fp32_16_filters,
      &team_tile_fp32_4_filters,
      &team_tile_fp32_1_filter,
      &rows_fp32,
      &direct_fp32,
      &vector_reduce_fp32,
      &ordered_fp32,
      &team_tile_fp64_8_filters,
      &rows_fp64,
      &direct_fp64,
      &vector_reduce_fp64,
      &ordered_fp64,
  };
  return list;
}

}  // namespace plumb::kokkos
