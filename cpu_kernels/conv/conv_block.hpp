// The functions of the CPU's convolutions that are declared here are compiled once for each
// instruction set (conv_block.inl). conv_direct.cpp and conv_panels.cpp cut problems, hand the
// parts out to threads and call these functions.
#pragma once

#include <cstdint>

#include "cpu_kernels/conv/channels_kernels.hpp"
#include "cpu_kernels/conv/conv_shape.hpp"
#include "cpu_kernels/conv/field_kernels.hpp"
#include "cpu_kernels/conv/images_kernels.hpp"
#include "cpu_kernels/conv/micro_kernel.hpp"
#include "cpu_kernels/conv/weights_kernels.hpp"

namespace plumb {

/// Neighbouring outputs of one row.
struct OutputRow {
  std::int64_t n, group, p;
  std::int64_t q, count;  ///< columns [q, q + count)
};

/// Filters [k, k + count) of a group.
struct FilterRange {
  std::int64_t k, count;
};

struct Planes;  // planes.hpp
struct Panel;   // panels/panel.hpp

template <class Real>
struct ConvKernels {
  std::int64_t filters;         ///< a run: the most filters of one call of the micro-kernel
  std::int64_t tile_positions;  ///< output positions of a register tile with a run's filters
  bool blocks_terms;            ///< whether sums of many terms are faster in blocks of terms
  bool (*micro_kernel)(const MicroKernelRun<Real>&);
  /// Copies the input of the output rows from `row` on to [c][row_plane][column_plane][row][pitch],
  /// with zeros for the padding.
  void (*load_planes)(const ConvShape&, const Planes&, const OutputRow& row, Real* planes);
  /// Packs [term][output], with zeros for the padding.
  void (*pack_panel)(const ConvShape&, const Panel&, Real* panel);
  /// Packs filters of a group as the micro-kernel reads them: [term][filter].
  void (*pack)(const ConvShape&, std::int64_t group, FilterRange, Real* packed);
  /// Computes the sums that are NaN once more, without the taps in the padding: there 0 * Inf made
  /// a NaN, where the tap shall contribute nothing. It applies bias and ReLU as for the other sums.
  /// The layouts are [filter][step] for sums and [term][filter] for packed filters of the run.
  void (*recompute)(const ConvShape&, const OutputRow&, FilterRange, const Real* packed, Real* sums,
                    std::int64_t step);
  /// Rounds the sums [filter][step] of `rows` rows, `pitch` apart, and stores them to y.
  void (*store)(const ConvShape&, const OutputRow&, std::int64_t rows, FilterRange,
                const Real* sums, std::int64_t step, std::int64_t pitch);
  /// Stores the greatest of each 2 x 2 sums of this row and the next, `pitch` further on, to y.
  void (*store_pooled)(const ConvShape&, const OutputRow&, FilterRange, const Real* sums,
                       std::int64_t step, std::int64_t pitch);
};

/// The kernels that compute in Real.
template <class Real>
struct KernelsOf {
  ConvKernels<Real> conv;
  FieldKernels<Real> fields;
  WeightsKernels<Real> weights;
  ChannelsKernels<Real> channels;
  ImagesKernels<Real> images;
};

struct ConvKernelSet {
  KernelsOf<float> fp32;
  KernelsOf<double> fp64;
};

/// There is one set for each instruction set. The library has the baseline's on every machine, the
/// others on x86-64.
extern const ConvKernelSet conv_kernels_baseline, conv_kernels_avx2, conv_kernels_avx512;

}  // namespace plumb
