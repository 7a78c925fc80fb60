// How a convolution of bf16 is cut for tiles: into bands of output rows, whose input of one group
// lies in a slab with channels innermost, and blocks of 32 filters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu_kernels/tiles/tiles_kernels.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// Strides of a tensor of images along all axes, in elements.
struct ImageSteps {
  std::int64_t n, c, d, h, w;
};

struct TilesPlan : KernelPlan {
  std::int64_t group_c, group_k;
  /// Terms that lie one behind the other in the slab: channels, and the taps of a row where they
  /// are not dilated. A run of them is cut into steps; the last has filters of zeros.
  std::int64_t run_terms, run_taps, runs_of_row;
  std::int64_t width;                 ///< pixels of a slab's row
  std::int64_t rows, bands;           ///< output rows of a band
  std::int64_t slab_rows;             ///< input rows under a band
  bool in_place;                      ///< positions are read where they lie, and there is no slab
  bool meets_zeros;                   ///< zeros that are no terms may meet Inf
  bool flat;                          ///< a band's positions are one row, with those between
  std::int64_t blocks;                ///< of a group's filters
  std::int64_t parts;                 ///< that the blocks are shared out in
  std::vector<std::int64_t> offsets;  ///< of the steps, in the slab
  double products;                    ///< with those that are not wanted
  std::size_t slab_bytes = 0;

  explicit TilesPlan(const ConvProblem& problem, std::int64_t threads);

  std::int64_t steps() const { return static_cast<std::int64_t>(offsets.size()); }
  std::int64_t block_elements() const { return steps() * tile_terms * block_side; }
  std::int64_t filter_elements(std::int64_t groups) const {
    return groups * blocks * block_elements();
  }
  std::int64_t tasks(const ConvProblem& p) const { return p.n * p.z() * bands * p.groups * parts; }
};

ImageSteps image_steps(const ConvProblem& problem);
ImageSteps output_steps(const ConvProblem& problem);

}  // namespace plumb
