// A convolution with vectors over filters is cut into bands of outputs whose input, some channels
// at a time, fits into a level-2 cache beside the filters that it meets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/conv/channels_kernels.hpp"
#include "cpu_kernels/conv/tap_classes.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// A problem's sizes along all axes, whatever its tensors' rank. Axes that lie in memory like one
/// are one: a convolution without a filter's extent has one long row, one with a single output an
/// image a row of images.
struct ChannelsAxes {
  std::int64_t n, d, h, w;  ///< of x
  std::int64_t z, p, q;     ///< of y, an image
  std::int64_t x_n, x_c, x_d, x_h, x_w;
  std::int64_t y_n, y_k, y_z, y_p, y_q;
  std::int64_t q_step;  ///< in x, from an output to its neighbour in a row
};

/// Bytes of filters that stay in a second cache from one band to the next.
inline constexpr std::int64_t kept_filters = 768 << 10;

struct ChannelsPlan : KernelPlan {
  ChannelsAxes axes;
  TapAxis d, h, w;
  std::vector<TapClass> z_classes, p_classes, q_classes;
  std::int64_t lanes;
  std::int64_t run;     ///< filters of a run: whole vectors
  bool by_lane;         ///< whether a vector holds filters of several groups
  std::int64_t groups;  ///< of a vector: 1, 2, 4, or the lanes with an input for each filter
  bool expand;          ///< whether filters of a group have copies of its channels
  bool turn;            ///< whether a vector's groups lie side by side in the slab
  bool zero_columns;    ///< whether a row's columns of zeros are copied
  double in_zeros;    ///< the share of a row's taps that its first and last output leave out there
  bool in_place;      ///< whether x is read where it lies, and there is no slab
  std::int64_t taps;  ///< T R S
  std::int64_t group_c, group_k;
  std::int64_t sets, set_filters;      ///< of filters: the groups', or all filters `by_lane`
  std::int64_t chunks, chunk;          ///< parts of a set, and the filters of one: whole runs
  std::int64_t blocks, block;          ///< of a group's channels, and the channels of one
  std::int64_t rows, bands;            ///< of a band; bands below each other
  std::int64_t columns, column_bands;  ///< of a band; bands beside each other
  bool streams_filters;                ///< whether a second cache has no room for all filters
  std::int64_t pitch, row, plane;      ///< in the slab, from a column, row and plane to the next
  std::int64_t sums_step;  ///< from an output's sums to the next, where they are not in y
  double products;         ///< that take as long as all work in caches does

  std::size_t slab_bytes, staged_bytes, bias_bytes, sums_bytes;
  std::size_t slot_bytes() const { return slab_bytes + staged_bytes + bias_bytes + sums_bytes; }

  std::int64_t runs_of_set() const { return ceil_div(set_filters, run); }
  std::int64_t set_lanes() const { return round_up(set_filters, lanes); }
  /// Inputs of a channel of each group that a slab has for the filters of a chunk.
  std::int64_t chunk_inputs() const { return chunk / lanes * groups; }
  /// Whether filters of several groups stand in a vector in another order than in y.
  bool turns() const { return groups > 1 && groups < lanes; }
  /// Where filter k of a run stands in its packed vectors.
  std::int64_t packed(std::int64_t k) const {
    const std::int64_t lane = k % lanes, of_group = lanes / groups;
    return k - lane + (turns() ? lane % of_group * groups + lane / of_group : lane);
  }
  std::int64_t terms() const { return group_c * taps; }
  /// Reals of the flags before the packed filters, one a run: whether a weight is not finite.
  std::int64_t flags() const { return round_up(sets * runs_of_set(), 16); }
  std::int64_t filter_reals() const { return flags() + sets * set_lanes() * terms(); }
  std::int64_t tasks() const { return axes.n * axes.z * bands * column_bands * sets * chunks; }
};

/// Returns the plan, or one of no chunks where the smallest band takes more than
/// `workspace_limit_bytes`.
template <class Real>
ChannelsPlan plan_channels(const ConvProblem& problem, const ChannelsKernels<Real>& kernels,
                           int threads);

}  // namespace plumb
