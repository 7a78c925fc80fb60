// What kernels with vectors over filters are told. The functions are compiled once for each
// instruction set (channels/channels.inl).
#pragma once

#include <cstdint>

#include "plumb/types.hpp"

namespace plumb {

/// Where a tap has its input, in elements, and its filters, in vectors of a run.
struct ChannelsTap {
  std::int64_t x, w;
  unsigned zeros;  ///< 1 and 2: whether a row's first and last output have it in copied zeros
};

/// A call adds terms to the sums of `rows` x `count` outputs and some neighbouring filters:
///
///   sums[row][i][k] += sum over channels and taps of x[row][i][channel][tap] w[channel][tap][k]
///
/// channel by channel. A vector may hold filters of several groups, filter f of group g in lane
/// f * groups + g, whose inputs are neighbours, and the next vector's x_vector further on. With as
/// many groups as lanes each filter has an input of its own. Sums are in the order of the filters.
template <class Real>
struct ChannelsRun {
  const Real* x;
  std::int64_t x_row, x_step;  ///< from an output's row and column to the next
  std::int64_t x_channel, x_vector;
  std::int64_t first_channel;  ///< in w
  std::int64_t channels;
  const ChannelsTap* taps;
  std::int64_t taps_count;
  /// [run][channel][tap][vectors][lane], of runs of `vectors` vectors of filters, of which the last
  /// may have fewer.
  const Real* w;
  std::int64_t w_taps;      ///< of a channel in w
  std::int64_t w_channels;  ///< of a run in w, from its first channel to the next run's
  std::int64_t vectors;     ///< at most ChannelsKernels::vectors
  std::int64_t groups;      ///< of a vector: 1, 2, 4 or the lanes
  bool from_memory;  ///< whether x may lie in no cache, and is prefetched by the first filters
  std::int64_t tiles_ahead;  ///< how many, of several groups a vector, and otherwise one
  /// What is read next, [ahead, ahead_end), may lie in no cache either, and comes `ahead_lines`
  /// cache lines with each channel. A call moves `ahead` on.
  const Real *ahead, *ahead_end;
  std::int64_t ahead_lines;
  Real* sums;  ///< of `filters` neighbours each
  std::int64_t sums_row, sums_step;
  std::int64_t filters;  ///< of one group a vector one run's
  std::int64_t rows, count;
  bool first;        ///< whether the sums begin at zero, and not at what is there
  const Real* bias;  ///< null, or what is added to each filter's sums after the last term
  bool relu;         ///< negative sums become zero after the bias, NaN stays
  bool plus_zero;    ///< whether a sum of -0 becomes 0 after the bias
};

/// Columns of an image's row, to be copied as to[column][channel]. With `expand` filters that share
/// a group have a copy of its channels each: to[column][channel of group][filter]. With `turn`, 2
/// or 4, as many groups lie side by side: to[column][vector][channel of group][group].
template <class Real>
struct ChannelsLoad {
  DType dtype;
  const void* x;  ///< element of the first column and channel
  std::int64_t x_column, x_channel, x_group;
  std::int64_t columns, channels, groups;  ///< channels of each group
  Real* to;
  std::int64_t pitch;  ///< from a column to the next
  bool expand;
  std::int64_t turn;     ///< groups, or none
  std::int64_t filters;  ///< of all groups together, or with `turn` from a vector to the next
  std::int64_t group_filters;
  std::int64_t skip;  ///< filters of the first group that are not wanted
  Real* staged;       ///< with either: room for staged_columns x groups x channels
};

/// The columns that are copied before filters get their own.
inline constexpr std::int64_t staged_columns = 16;

/// Sums of a row's outputs, [output][filter], to be rounded and stored to y.
template <class Real>
struct ChannelsStore {
  DType dtype;
  const Real* sums;
  std::int64_t sums_step, count, filters;
  void* y;  ///< element of the first output and filter
  std::int64_t y_filter, y_output;
  bool accumulate, relu;  ///< y's old values are added, then activated
  bool plus_zero;
};

template <class Real>
struct ChannelsKernels {
  std::int64_t lanes;
  std::int64_t positions;  ///< outputs of a register tile
  std::int64_t vectors;    ///< vectors of filters of a register tile
  void (*sum)(ChannelsRun<Real>&);
  void (*load)(const ChannelsLoad<Real>&);
  void (*store)(const ChannelsStore<Real>&);
};

}  // namespace plumb
