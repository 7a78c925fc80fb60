// All models reach their tables of costs through one function.
#pragma once

#include "cuda_kernels/cost/depthwise_table.hpp"
#include "cuda_kernels/cost/depthwise_toeplitz_table.hpp"
#include "cuda_kernels/cost/depthwise_weights_table.hpp"
#include "cuda_kernels/cost/few_channels_table.hpp"
#include "cuda_kernels/cost/few_weights_table.hpp"
#include "cuda_kernels/cost/fma_table.hpp"
#include "cuda_kernels/cost/grouped_table.hpp"
#include "cuda_kernels/cost/interleaved_table.hpp"
#include "cuda_kernels/cost/kernel_table.hpp"
#include "cuda_kernels/cost/ladder_table.hpp"
#include "cuda_kernels/cost/octet_weights_table.hpp"
#include "cuda_kernels/cost/pointwise_table.hpp"
#include "cuda_kernels/cost/pointwise_taps_table.hpp"
#include "cuda_kernels/cost/streamed_filters_table.hpp"
#include "cuda_kernels/cost/weights_table.hpp"
#include "cuda_kernels/cost/wide_mma_table.hpp"
#include "cuda_kernels/cost/wide_patch_table.hpp"
#include "cuda_kernels/cost/wide_table.hpp"
#include "cuda_kernels/cost/wide_weights_table.hpp"

namespace plumb::cuda {

struct CostTables {
  KernelTable kernel;
  FmaTable fma;
  LadderTable ladder;
  FewChannelsTable few_channels;
  StreamedFiltersTable streamed_filters;
  InterleavedTable interleaved;
  GroupedTable grouped;
  PointwiseTable pointwise;
  PointwiseTapsTable pointwise_taps;
  WideTable wide;
  WideMmaTable wide_mma;
  WidePatchTable wide_patch;
  WideWeightsTable wide_weights;
  WeightsTable weights;
  FewWeightsTable few_weights;
  OctetWeightsTable octet_weights;
  DepthwiseTable depthwise;
  DepthwiseToeplitzTable depthwise_toeplitz;
  DepthwiseWeightsTable depthwise_weights;
};

/// Returns the tables that this was built with; the program that fits them has others
/// (fit_costs.cpp).
const CostTables& cost_tables();

}  // namespace plumb::cuda
