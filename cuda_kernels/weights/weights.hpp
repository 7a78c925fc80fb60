// Backward weights of few channels: how a problem is cut, what its kernels are told, and their
// launches. Host code alone; README.md draws the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/primitives/host_device.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// The sums that one thread of a kernel has: filters x lines x taps of a line. A line is some taps
/// of one row of a filter that read neighbours in shared memory.
struct WeightsTile {
  int filters = 0, lines = 0, taps = 0;
  int sums() const { return filters * lines * taps; }
  bool operator==(const WeightsTile&) const = default;
};

/// Which tiles are compiled for elements of so many bytes: doubles have half the registers.
inline constexpr WeightsTile weights_tiles[] = {
    {8, 4, 1}, {8, 2, 2}, {8, 2, 3}, {8, 1, 4}, {8, 1, 5}, {8, 1, 7},  //
    {4, 8, 1}, {4, 4, 2}, {4, 3, 3}, {4, 2, 4}, {4, 1, 5}, {4, 1, 7},  //
    {1, 8, 1}, {1, 4, 2}, {1, 3, 3}, {1, 4, 4}, {1, 5, 5}, {1, 7, 7}};
constexpr bool is_compiled(const WeightsTile& tile, int real_bytes) {
  return real_bytes == 4 || (tile.filters < 8 && tile.filters * tile.lines * tile.taps < 49);
}

/// A thread sums so many neighbouring positions of a row at once.
inline constexpr int weights_step = 4;
inline constexpr int weights_threads = 256, weights_max_steps = 1024;
/// The kernel that adds up the parts: a block has so many elements of dw, and for each of them so
/// many threads.
inline constexpr int finish_elements = 8, finish_rows = 32;

/// One axis of the image, in units of what stride and dilation have in common: output i and tap j
/// read coordinate unit (stride i + dilation j) - before.
struct WeightsAxis {
  std::int64_t outputs = 1, extent = 1, before = 0;
  std::int64_t unit = 1;
  int taps = 1, stride = 1, dilation = 0;
};

/// What is summed, without where it lies.
struct WeightsSizes {
  std::int64_t n = 0, images = 0;  ///< N, and N Z
  std::int64_t groups = 1, group_k = 1, group_c = 1;
  WeightsAxis d, h, w;
  /// Of a row of taps: the planes of columns that it reads (one for each phase of the stride), and
  /// the taps in the fullest of them. Where taps are no neighbours each is a line by itself.
  int planes = 1, plane_taps = 1;
  bool neighbours = true;
  int max_shift = 0;  ///< from a row's first column in a plane to the last that a tap reads

  PLUMB_HOST_DEVICE std::int64_t taps() const { return std::int64_t{d.taps} * h.taps * w.taps; }
  PLUMB_HOST_DEVICE std::int64_t terms() const { return group_c * taps(); }
  PLUMB_HOST_DEVICE std::int64_t weights() const { return groups * group_k * terms(); }
};
/// Sizes that 32 bits do not hold give nothing.
std::optional<WeightsSizes> weights_sizes(const ConvProblem& problem);

/// How a problem is cut, from its sizes and the bytes of a sum alone. A block has some filters and
/// channels of dw and a part of the units; a unit is a box of positions of some images, whose input
/// and gradients are a stage in shared memory.
struct WeightsCut {
  WeightsTile tile;
  int pieces = 1;                       ///< lines of a row of taps
  int block_k = 1, block_c = 1;         ///< filters and channels of a block
  int channel_lines = 1;                ///< of a channel, that a block has
  int tiles_k = 1, tiles_l = 1;         ///< threads' tiles of a block, along filters and lines
  int splits = 1;                       ///< threads that share a tile
  int threads = 32;                     ///< of a block
  int box_n = 1, box_p = 1, box_q = 4;  ///< of a unit: images, rows, columns (whole steps)
  int rows = 1, plane_pitch = 1, row_pitch = 1;  ///< of the input of an image, channel and plane
  int filter_pitch = 4;                          ///< elements from filter to filter of gradients
  int steps = 1;                                 ///< of a unit
  int sum_rows = 1;  ///< chains that the sums of a tile's threads are added in
  std::int64_t blocks_k = 1, blocks_c = 1, blocks_l = 1;  ///< that cut dw, in each group
  std::int64_t bands = 1, columns = 1;                    ///< units of an image
  std::int64_t units = 0;
  std::int64_t parts = 1;
  std::size_t shared_bytes = 0;
  double clocks = 0;  ///< of a multiprocessor, for all

  std::int64_t blocks_of_part(std::int64_t groups) const {
    return groups * blocks_k * blocks_c * blocks_l;
  }
  /// Of a stage: the input, in whole vectors, and the gradients behind it.
  PLUMB_HOST_DEVICE int x_elements(int taps_d) const {
    return (box_n * block_c * taps_d * rows * row_pitch + 3) / 4 * 4;
  }
  PLUMB_HOST_DEVICE int stage_elements(int taps_d) const {
    return x_elements(taps_d) + block_k * filter_pitch;
  }
};
/// Nothing where no box of the input fits shared memory. `real_bytes` are of a sum. Tests ask for a
/// tile.
std::optional<WeightsCut> cut_weights(const WeightsSizes& sizes, int real_bytes,
                                      const WeightsTile* tile = nullptr);
/// Elements of all stages that are copied one by one: x, and dy where rows are of an odd number.
double single_elements(const WeightsSizes& sizes, const WeightsCut& cut);
/// The most additions on the way of a product to its sum.
double weights_chain(const WeightsSizes& sizes, const WeightsCut& cut);

/// Strides in elements; of a gradient's axes as of the problem's.
struct WeightsStrides {
  std::int64_t x_n, x_c, x_d, x_h, x_w;
  std::int64_t w_k, w_c, w_t, w_r, w_s;
  std::int64_t y_n, y_k, y_z, y_p, y_q;
};
WeightsStrides weights_strides(const ConvProblem& problem);

struct WeightsPlan {
  WeightsSizes sizes;
  WeightsCut cut;
  WeightsStrides strides;
};

struct WeightsCall {
  const void* x;
  const void* dy;
  void* dw;
  void* parts;  ///< [part][k][c t r s], sums
  bool accumulate = false;
};

void launch_weights_f32(const WeightsPlan& plan, const WeightsCall& call, void* stream);
void launch_weights_f64(const WeightsPlan& plan, const WeightsCall& call, void* stream);
void launch_weights_f16(const WeightsPlan& plan, const WeightsCall& call, void* stream);
void launch_weights_bf16(const WeightsPlan& plan, const WeightsCall& call, void* stream);

}  // namespace plumb::cuda
