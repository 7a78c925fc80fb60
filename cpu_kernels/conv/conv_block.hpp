// The parts of the CPU's convolutions that are compiled once for each instruction set
// (conv_block.inl); conv_direct.cpp and conv_panels.cpp cut problems and hand the pieces out to
// threads. Plain data and functions, since sources for several instruction sets share them.
#pragma once

#include <cstdint>

#include "cpu_kernels/conv/conv_shape.hpp"
#include "cpu_kernels/conv/micro_kernel.hpp"

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

struct Planes;  // direct/planes.hpp
struct Panel;   // panels/panel.hpp

template <class Real>
struct ConvKernels {
  std::int64_t filters;         ///< of a run of sums, at most
  std::int64_t tile_positions;  ///< of a tile with so many filters
  bool blocks_terms;            ///< whether runs of many terms are better summed in blocks of them
  bool (*micro_kernel)(const MicroKernelRun<Real>&);
  /// [c][row_plane][column_plane][row][pitch], for the output rows from `row` on; zeros around the
  /// image.
  void (*load_planes)(const ConvShape&, const Planes&, const OutputRow& row, Real* planes);
  void (*pack_panel)(const ConvShape&, const Panel&, Real* panel);
  /// Filters of a group as runs read them: for each run, [term][filter].
  void (*pack)(const ConvShape&, std::int64_t group, FilterRange, Real* packed);
  /// Outputs that are NaN, again, without the taps in the padding: 0 * Inf is NaN, and those shall
  /// contribute nothing. With bias and ReLU, like the sums that it mends, [filter][step]. `packed`
  /// are the filters of the run, [term][filter].
  void (*recompute)(const ConvShape&, const OutputRow&, FilterRange, const Real* packed, Real* sums,
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
