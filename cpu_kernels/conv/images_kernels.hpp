// What kernels with vectors over images are told. The functions are compiled once for each
// instruction set (images/images.inl).
#pragma once

#include <cstdint>

#include "cpu_kernels/conv/channels_kernels.hpp"

namespace plumb {

/// A call adds terms to the sums of some filters and of `rows` x `count` outputs, each a vector of
/// images:
///
///   sums[k][row][i] += sum over channels and taps of x[row][i][channel][tap] w[channel][tap][k]
///
/// channel by channel.
template <class Real>
struct ImagesRun {
  const Real* x;
  std::int64_t x_row, x_step;  ///< from an output's row and column to the next
  std::int64_t x_channel;
  std::int64_t channels;
  const ChannelsTap* taps;  ///< places in w are counted in taps
  std::int64_t taps_count;
  const Real* w;         ///< [channel][tap][filter]
  std::int64_t w_taps;   ///< of a channel in w
  std::int64_t filters;  ///< what run_filters() returns
  Real* sums;
  std::int64_t sums_filter, sums_row, sums_step;
  std::int64_t rows, count;
  bool first;        ///< whether the sums begin at zero, and not at what is there
  const Real* bias;  ///< null, or what is added to each filter's sums after the last term
  bool relu;         ///< negative sums become zero after the bias, NaN stays
  bool plus_zero;    ///< whether a sum of -0 becomes 0 after the bias
};

/// The functions of one instruction set.
template <class Real>
struct ImagesKernels {
  std::int64_t lanes;
  std::int64_t filters;  ///< the most of a run
  /// Returns the outputs of a register tile with `filters` filters.
  std::int64_t (*outputs)(std::int64_t filters);
  void (*sum)(const ImagesRun<Real>&);
};

}  // namespace plumb
