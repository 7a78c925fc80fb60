// How long the kernels in ladder/ take. Kernels say how they cut a problem; what that costs is
// here.
#pragma once

#include <cstdint>

#include "cuda_kernels/cost/kernel_model.hpp"
#include "cuda_kernels/fma/band_tile.hpp"

namespace plumb::cuda {

double constant_filters_seconds(const ConvProblem& problem, const DeviceInfo& device);
/// `issued_flop`: of all threads, idle ones too.
double shared_tile_seconds(const ConvProblem& problem, const DeviceInfo& device,
                           double issued_flop);
/// `copied`: filters come from constant to shared memory.
double shared_tile_constant_seconds(const ConvProblem& problem, const DeviceInfo& device,
                                    double issued_flop, bool copied);
double half2_seconds(const ConvProblem& problem, const DeviceInfo& device);
double scatter_atomics_seconds(const ConvProblem& problem, const DeviceInfo& device);

/// A warp of narrow_fragments makes `task_pixels` of all n8 tiles at a time.
struct NarrowFragments {
  int n8_tiles;
  BandTile tile;                 ///< of a block
  std::int64_t blocks;           ///< that have one
  int block_warps, task_pixels;  ///< warps of a block, and pixels that each makes at a time
  int fragments;                 ///< of sixteen pixels, that those are
  int steps;                     ///< of a chunk of channels
};
double narrow_fragments_seconds(const ConvProblem& problem, const DeviceInfo& device,
                                const NarrowFragments& of);

/// Tiles of `filters` filters, `threads` threads each, through steps of `step_terms` terms.
struct ReuseTiles {
  int filters, threads, step_terms;
  std::int64_t count;
};
double index_reuse_seconds(const ConvProblem& problem, const DeviceInfo& device,
                           const ReuseTiles& tiles);

/// Products of square tiles, in steps of `step_terms` terms.
struct FragmentTiles {
  int side, step_terms;
  std::int64_t count;
};
double tensor_core_seconds(const ConvProblem& problem, const DeviceInfo& device,
                           const FragmentTiles& tiles);

}  // namespace plumb::cuda
