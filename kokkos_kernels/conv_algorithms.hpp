// The convolutions written with Kokkos; each is defined in the source that its name tells.
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb::kokkos {

extern const ConvAlgorithm direct_fp32;
extern const ConvAlgorithm direct_fp64;
extern const ConvAlgorithm ordered_fp32;
extern const ConvAlgorithm ordered_fp64;
extern const ConvAlgorithm rows_fp32;
extern const ConvAlgorithm rows_fp64;
extern const ConvAlgorithm team_tile_fp32_16_filters;
extern const ConvAlgorithm team_tile_fp32_4_filters;
extern const ConvAlgorithm team_tile_fp32_1_filter;
extern const ConvAlgorithm team_tile_fp64_8_filters;
extern const ConvAlgorithm vector_reduce_fp32;
extern const ConvAlgorithm vector_reduce_fp64;

}  // namespace plumb::kokkos
