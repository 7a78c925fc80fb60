// The parts of the CPU's convolutions that are compiled once for each instruction set
// (conv_block.inl); conv_direct.cpp and conv_panels.cpp cut problems and hand the pieces out to
// threads. Plain data and functions, since sources for several instruction sets share them.
#pragma once

#include <cstdint>

#include "cpu_kernels/conv/conv_shape.hpp"
#include "cpu_kernels/conv/products.hpp"

namespace plumb {

/// Neighbours in one row of outputs.
struct OutputRow {
  std::int64_t n, group, p;
  std::int64_t q, count;  ///< columns [q, q + count)
};

/// Filters [k, k + count) of a group.
struct FilterRange {
  std::int64_t k, count;
};

/// The input of a band of output rows, copied so that every term is a shift and the outputs are one
/// run of neighbours for all terms:
///
///   sums[k][i] = sum over terms of planes[i + offset[term]] w[term][k],   i = p * pitch + q.
///
/// With a stride, the rows of one remainder make a plane of their own. Columns come in two ways:
///   - a plane for each remainder, with rows as long as the last tap reaches: at the end of each
///     row are places that are no outputs, which are computed and dropped;
///   - a plane for each column of the filter, with rows of just the outputs' width: more to copy,
///     nothing to drop.
struct Planes {
  std::int64_t row_planes, column_planes;  ///< of each channel
  std::int64_t column_step;                ///< input columns from one plane's first to the next's
  std::int64_t pitch, rows;                ///< of a plane
  std::int64_t plane;                      ///< from one plane to the next
};

/// The most outputs of a panel: three tiles of 32 registers, nine of 16. Of one that lies in an
/// image more: longer pieces of its rows come from memory faster.
inline constexpr std::int64_t panel_places = 144, image_places = 224;

/// A piece of the matrix that im2col would make, [term][output]: for outputs that are neighbours
/// when all images are counted through, what they are multiplied with.
struct Panel {
  std::int64_t group;
  std::int64_t first, count;       ///< outputs, over all images
  std::int64_t first_term, terms;  ///< counted c r s
  std::int64_t step;               ///< from one term to the next, `count` + product_places or more
};

template <class Real>
struct ConvKernels {
  std::int64_t filters;      ///< of a run of sums, at most
  std::int64_t tile_places;  ///< of a tile with so many filters
  bool blocks_terms;         ///< whether runs of many terms are better summed in blocks of them
  bool (*sum)(const ProductRun<Real>&);
  /// [c][row_plane][column_plane][row][pitch], for the output rows from `row` on; zeros around the
  /// image.
  void (*load_planes)(const ConvShape&, const Planes&, const OutputRow& row, Real* planes);
  void (*load_panel)(const ConvShape&, const Panel&, Real* panel);
  /// Filters of a group as runs read them: for each run, [term][filter].
  void (*pack)(const ConvShape&, std::int64_t group, FilterRange, Real* packed);
  /// Outputs that are NaN, again, without the taps in the padding: 0 * Inf is NaN, and those shall
  /// contribute nothing. With bias and ReLU, like the sums that it mends, [filter][step]. `packed`
  /// are the filters of the run, [term][filter].
  void (*mend)(const ConvShape&, const OutputRow&, FilterRange, const Real* packed, Real* sums,
               std::int64_t step);
  /// Rounds sums [filter][step] to y: this row's and those of the rows behind it, which follow each
  /// other `pitch` apart.
  void (*store)(const ConvShape&, const OutputRow&, std::int64_t rows, FilterRange,
                const Real* sums, std::int64_t step, std::int64_t pitch);
  /// The greatest of each two by two of this row and the next, which lies `pitch` further, to y.
  void (*store_pooled)(const ConvShape&, const OutputRow&, FilterRange, const Real* sums,
                       std::int64_t step, std::int64_t pitch);
};

struct ConvKernelSet {
  ConvKernels<float> fp32;
  ConvKernels<double> fp64;
};

/// What was compiled for an instruction set; the library holds the baseline's on every machine,
/// the others' on x86-64.
extern const ConvKernelSet conv_kernels_baseline, conv_kernels_avx2, conv_kernels_avx512;

}  // namespace plumb
