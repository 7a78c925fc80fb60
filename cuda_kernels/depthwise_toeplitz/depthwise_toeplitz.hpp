// Depthwise convolutions on tensor cores: how a problem is cut, what the kernel is told, and its
// launches. Host code alone; README.md draws the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/primitives/host_device.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// What a warp sums at once: fragments of 16 rows by 8 columns.
struct DepthwiseToeplitzTile {
  int m = 1, n = 1;
  bool operator==(const DepthwiseToeplitzTile&) const = default;
};
inline constexpr DepthwiseToeplitzTile depthwise_toeplitz_tiles[] = {
    {1, 7}, {2, 4}, {4, 2}, {4, 1}};

inline constexpr int depthwise_toeplitz_warps = 8;  ///< of a block, at most
inline constexpr int depthwise_toeplitz_blocks =
    3;  ///< that registers leave room for, of so many warps
inline constexpr int depthwise_toeplitz_half = 8;  ///< columns of half a fragment

/// An axis of the image. A stride to no second output and a dilation of one tap are 1.
struct DepthwiseToeplitzAxis {
  int extent = 1, taps = 1, outputs = 1, stride = 1, dilation = 1, before = 0;

  PLUMB_HOST_DEVICE int reach() const { return (taps - 1) * dilation + 1; }
};

/// How x or y moves between memory and shared memory.
enum class DepthwiseToeplitzMove {
  columns,               ///< some neighbouring columns of a row at once
  planes,                ///< eight neighbours of whole planes at once, wherever rows end
  channels,              ///< eight neighbouring channels of two columns at once
  elements,              ///< one by one, along a row
  elements_of_channels,  ///< one by one, along the channels
};

/// What a block has, in shared memory: for each of its channels a plane of rows of x, those of one
/// image behind those of another. Rows lie by their phase modulo the stride, so that neighbouring
/// rows of outputs read neighbouring rows under every tap.
struct DepthwiseToeplitzCut {
  DepthwiseToeplitzTile tile;
  int warps = 1, channels = 1, images = 1;
  int rows = 1;        ///< of outputs, of each image
  int tiles = 1;       ///< of 8 columns of outputs
  int lead = 0;        ///< columns before the first one that a tap reads, for whole vectors
  int halves = 1;      ///< of 8 columns, that a tile of 8 outputs reads of a row
  int phase_rows = 1;  ///< of one phase of an image
  int image_rows = 1;  ///< of an image
  int pitch = 8;       ///< elements from row to row
  int plane = 8;       ///< elements of a channel
  int copies = 1;      ///< of a row of taps, one for each parity that a pair of them may begin at
  int taps_words = 1;  ///< of one of them
  int x_rows = 1;      ///< of x that a block reads, at most
  int table_elements = 0;  ///< of the tables of whole planes
  DepthwiseToeplitzMove x_move = DepthwiseToeplitzMove::elements,
                        y_move = DepthwiseToeplitzMove::elements;
  int x_vector = 1, y_vector = 1;  ///< columns that move at once
  std::int64_t blocks_n = 1, blocks_c = 1, blocks_p = 1, blocks_q = 1;
  std::size_t shared_bytes = 0;

  PLUMB_HOST_DEVICE int threads() const { return 32 * warps; }
  PLUMB_HOST_DEVICE int m() const { return images * rows; }
  PLUMB_HOST_DEVICE int columns() const { return depthwise_toeplitz_half * tiles; }
  /// Where a channel's plane begins. Every second eight lie 16 banks further on: words of eight
  /// channels are so written beside those of the next eight.
  PLUMB_HOST_DEVICE int plane_at(int c) const { return c * plane + (c & ~7) * 4; }
  PLUMB_HOST_DEVICE int filter_words(int taps) const { return taps * copies * taps_words; }
  std::int64_t blocks() const { return blocks_n * blocks_c * blocks_p * blocks_q; }
};

/// What is to be taken in place of what the model prefers, where it is not 0.
struct DepthwiseToeplitzChoice {
  const DepthwiseToeplitzTile* tile = nullptr;
  int channels = 0, images = 0, rows = 0, tiles = 0;
};

struct DepthwiseToeplitzPlan {
  DepthwiseToeplitzAxis h, w;
  DepthwiseToeplitzCut cut;
  double seconds = 0;
};

/// Nothing where no tile fits shared memory.
std::optional<DepthwiseToeplitzPlan> plan_depthwise_toeplitz(
    const ConvProblem& problem, const DeviceInfo& device,
    const DepthwiseToeplitzChoice& choice = {});
/// The most additions on the way of a product to its sum: all that tensor cores are given, zeros of
/// the band among them. It does not depend on the layout.
double depthwise_toeplitz_chain(const ConvProblem& problem);

/// Mistakes that tests plant: copies are not waited for, taps lie one column off, pairs of taps
/// begin at the other parity, the halves of a fragment are exchanged, the padding is not zero.
enum class DepthwiseToeplitzFault {
  none,
  stale_stage,
  wrong_tap,
  wrong_parity,
  exchanged_halves,
  padding_of_ones
};

void launch_depthwise_toeplitz_f16(const DepthwiseToeplitzPlan& plan, const ConvLaunch& call);
void launch_depthwise_toeplitz_bf16(const DepthwiseToeplitzPlan& plan, const ConvLaunch& call);

}  // namespace plumb::cuda
