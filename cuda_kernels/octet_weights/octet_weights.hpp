// Backward weights of few channels and many taps by wgmma: how a problem is cut, what its kernel is
// told, and its launch. Host code alone; README.md draws the layout. Units, their copies and ranges
// are those of few_weights/.
#pragma once

#include <cstdint>
#include <optional>

#include "cuda_kernels/few_weights/few_weights.hpp"

namespace plumb::cuda {

inline constexpr int octet = 8;                  ///< channels or filters that lie side by side
inline constexpr int octet_tile = 8;             ///< octets of x of an instruction: its 64 rows
inline constexpr int octet_warpgroups = 2;       ///< of a block
inline constexpr int octet_max_tap_tiles = 192;  ///< of a channel: what a kernel's parameters hold

/// What is compiled: a warpgroup's sums are so many tiles of 64 rows, taps of channels, by
/// `filters` octets of columns.
struct OctetForm {
  int filters = 1, tiles = 1, blocks_at_once = 1;
  bool operator==(const OctetForm&) const = default;
};
/// As many tiles as the registers of two blocks hold, or of one.
inline constexpr OctetForm octet_forms[] = {
    {1, 16, 2}, {2, 9, 2},  {3, 7, 2},  {4, 4, 2}, {5, 4, 2}, {6, 3, 2}, {7, 2, 2}, {8, 2, 2},
    {2, 18, 1}, {3, 14, 1}, {4, 11, 1}, {5, 8, 1}, {6, 7, 1}, {7, 6, 1}, {8, 5, 1}};
/// Whether both halves of so many octets of dy are columns of one instruction: few columns wait for
/// x to be read from shared memory, and this reads it twice for three products. It takes sums of
/// three times the registers, which many leave no room for.
PLUMB_HOST_DEVICE constexpr bool octet_joint(int filters) { return filters <= 4; }

/// Taps of eight octets: from the first on in steps of the stride, along a row or down a column of
/// the filter, as far as there are any. Of one image and channel they read planes, rows or columns
/// at one distance.
struct OctetTaps {
  std::int16_t t = 0, r = 0, s = 0, down = 0;
};

/// How a problem is cut. `few` has its units, filters and channels of blocks; there columns are
/// tiles, which are channels' octets under the tap tiles.
struct OctetWeightsCut {
  FewWeightsCut few;
  OctetForm form;
  int filter_octets = 1, channel_octets = 1;  ///< of a block
  int tap_tiles = 1;
  bool row_pairs = false;       ///< a step is eight columns of two rows; else 16 of one
  int row_steps = 1, rows = 1;  ///< steps of a row or a pair, and how many of those an image has
  int dy_high = 8;              ///< elements of the high halves of dy
  int x_high = 8;               ///< of x

  /// Octets of a position and image under one octet of channels.
  PLUMB_HOST_DEVICE int planes(const WeightsSizes& sizes) const { return few.planes(sizes); }
  PLUMB_HOST_DEVICE int x_octet(const WeightsSizes& sizes) const {
    return planes(sizes) * few.x_plane;
  }
  PLUMB_HOST_DEVICE int x_image(const WeightsSizes& sizes) const {
    return channel_octets * x_octet(sizes);
  }
  PLUMB_HOST_DEVICE int dy_octet() const { return few.box_n * few.dy_plane; }

  /// In octets, from the first tap of the tile to the next.
  PLUMB_HOST_DEVICE int step(const WeightsSizes& sizes, const OctetTaps& taps) const {
    return taps.down ? sizes.h.dilation * few.pitch : sizes.w.dilation;
  }
  /// In octets, where the first tap reads an image's first position.
  PLUMB_HOST_DEVICE int offset(const WeightsSizes& sizes, const OctetTaps& taps) const {
    const int v = taps.r * sizes.h.dilation, w = taps.s * sizes.w.dilation;
    const int row = v / sizes.h.stride, column = w / sizes.w.stride;
    const int plane = (taps.t * few.row_planes + v - row * sizes.h.stride) * sizes.planes + w -
                      column * sizes.w.stride;
    return plane * few.x_plane + row * few.pitch + few.lead + column;
  }
};

struct OctetWeightsChoice {
  const OctetForm* form = nullptr;  ///< to be taken in place of what the model prefers
  int max_box = 0;                  ///< rows of a unit, if not 0
};

struct OctetWeightsPlan {
  WeightsSizes sizes;
  OctetWeightsCut cut;
  WeightsStrides strides;
  OctetTaps taps[octet_max_tap_tiles] = {};

  FewWeightsPlan few() const { return {few_weights_fp16x3_class, sizes, cut.few, strides}; }
  std::size_t sums() const { return few().sums(); }
};

/// Covers the taps of a filter, each once; returns how many tiles that takes, and writes them, if
/// there is room.
int cover_taps(const WeightsSizes& sizes, OctetTaps* tiles = nullptr);
/// Nothing where no unit fits shared memory, or the filter has too many taps.
std::optional<OctetWeightsPlan> plan_octet_weights(const ConvProblem& problem,
                                                   OctetWeightsChoice choice = {});
double octet_weights_chain(const OctetWeightsPlan& plan);

void launch_octet_weights(const OctetWeightsPlan& plan, const WeightsCall& call, void* stream);

}  // namespace plumb::cuda
