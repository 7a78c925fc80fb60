// These models say how long the kernels in ladder/ take. Kernels say how they cut a problem; models
// know what that costs.
#pragma once

#include <cstdint>

#include "cuda_kernels/cost/kernel_model.hpp"
#include "cuda_kernels/fma/band_tile.hpp"

namespace plumb::cuda {

double constant_filters_seconds(const ConvProblem& problem, const DeviceInfo& device);
/// `issued_flop` are the operations of all threads, idle ones included.
double shared_tile_seconds(const ConvProblem& problem, const DeviceInfo& device,
                           double issued_flop);
/// `copied` says that filters are copied from constant to shared memory.
double shared_tile_constant_seconds(const ConvProblem& problem, const DeviceInfo& device,
                                    double issued_flop, bool copied);
double half2_seconds(const ConvProblem& problem, const DeviceInfo& device);
double scatter_atomics_seconds(const ConvProblem& problem, const DeviceInfo& device);

/// A warp of narrow_fragments makes `task_pixels` of all n8 tiles at a time.
struct NarrowFragments {
  int n8_tiles;
  BandTile tile;                 ///< the band of a block
  std::int64_t blocks;           ///< blocks that have a band
  int block_warps, task_pixels;  ///< warps of a block, and pixels that each makes at a time
  int fragments;                 ///< fragments of sixteen pixels in `task_pixels`
  int steps;                     ///< steps of a chunk of channels
};
double narrow_fragments_seconds(const ConvProblem& problem, const DeviceInfo& device,
                                const NarrowFragments& of);

/// The tiles of index_reuse: each has `filters` filters and `threads` threads, and goes through
/// steps of `step_terms` terms.
struct ReuseTiles {
  int filters, threads, step_terms;
  std::int64_t count;
};
double index_reuse_seconds(const ConvProblem& problem, const DeviceInfo& device,
                           const ReuseTiles& tiles);

/// The tiles of tensor_core, which are square and go through steps of `step_terms` terms.
struct FragmentTiles {
  int side, step_terms;
  std::int64_t count;
};
double tensor_core_seconds(const ConvProblem& problem, const DeviceInfo& device,
                           const FragmentTiles& tiles);

}  // namespace plumb::cuda
