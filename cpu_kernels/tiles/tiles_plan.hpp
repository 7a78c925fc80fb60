// How a convolution of bf16 is cut for tiles: into bands of output rows, whose input of one group
// lies in a slab with channels innermost, and blocks of positions by filters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu_kernels/tiles/tiles_kernels.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// Strides of a tensor of images along all axes, in elements.
struct ImageStrides {
  std::int64_t n, c, d, h, w;
};

/// Where the terms of a step begin: in the run of taps from column `run` on of filter row (t, r).
struct TilesStep {
  std::int64_t t, r, run, term;
};

struct TilesPlan : KernelPlan {
  std::int64_t group_c, group_k;
  bool by_images;  ///< one output each: rows are images, and a row one pixel
  std::int64_t output_planes, output_rows, output_columns;
  /// Terms that lie one behind the other in the slab: channels, and the taps of a row where they
  /// are not dilated. Where a run's terms are not whole steps, the last has filters of zeros.
  std::int64_t run_terms;
  bool pointwise;                     ///< no filter's extent: the slab has what outputs have
  std::int64_t stride_h, stride_w;    ///< of positions, in rows and pixels of the slab
  std::int64_t width;                 ///< pixels of a slab's row
  std::int64_t rows, bands;           ///< output rows of a band
  std::int64_t slab_rows;             ///< input rows under a band, or of an image
  std::int64_t image_elements;        ///< that a slab has of an image
  bool in_place;                      ///< positions are read where they lie, and there is no slab
  bool meets_zeros;                   ///< zeros that are no terms may meet Inf
  bool flat;                          ///< a band's positions are one row, with those between
  std::int64_t row_places;            ///< of a band's positions, before the next row's begin
  std::int64_t place_elements;        ///< from a place to the next in the slab
  bool tall;                          ///< blocks are max_positions by tile_side, not a square
  std::int64_t parts;                 ///< that a group's filters are shared out in
  bool positions_outside;             ///< the outer loop: a part's filters stay in a cache
  std::vector<TilesStep> steps;       ///< in the order of the sum
  std::vector<std::int64_t> offsets;  ///< of the steps, in the slab
  double products;                    ///< with those that are not wanted
  std::size_t slab_bytes = 0;

  explicit TilesPlan(const ConvProblem& problem, std::int64_t threads);

  std::int64_t block_positions() const { return tall ? max_positions : block_side; }
  std::int64_t block_filters() const { return tall ? tile_side : block_side; }
  std::int64_t blocks() const;  ///< of a group's filters
  /// Filters are packed `tile_side` by `tile_side`, the last of a group with zeros, whatever the
  /// blocks are.
  std::int64_t packed_tiles() const;                             ///< of a group
  std::int64_t row_elements() const { return width * group_c; }  ///< of the slab
  std::int64_t packed_elements() const {
    return static_cast<std::int64_t>(steps.size()) * step_filters;
  }
  std::int64_t tasks(const ConvProblem& p) const { return images_of_bands(p) * bands * parts; }

 private:
  void order_steps(const ConvProblem& p);
  void cut_into_bands(const ConvProblem& p, std::int64_t threads);
  void cut_into_blocks(const ConvProblem& p, std::int64_t threads);
  bool reads_in_place(const ConvProblem& p) const;
  /// Planes of images and groups, each cut into bands by itself.
  std::int64_t images_of_bands(const ConvProblem& p) const {
    return (by_images ? 1 : p.n) * output_planes * p.groups;
  }
  std::int64_t input_rows(const ConvProblem& p, std::int64_t outputs) const;
  std::int64_t slab_elements(const ConvProblem& p, std::int64_t outputs) const;
};

ImageStrides image_strides(const Strides& strides);
ImageStrides input_strides(const ConvProblem& problem);
ImageStrides output_strides(const ConvProblem& problem);

}  // namespace plumb
