// How a convolution of many channels is cut for the kernel in wide_kernel.cuh: host code alone.
//
// The product's rows are output pixels, numbered through N (Z) P Q, its columns filters, its terms
// the channels under the filter's taps. A step of the reduction is 64 channels under one tap: rows
// of 128 bytes, which the copy engine writes swizzled (primitives/swizzle.hpp) and wgmma reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "cuda_kernels/primitives/host_device.hpp"
#include "cuda_kernels/primitives/im2col_map.hpp"
#include "cuda_kernels/primitives/swizzle.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

inline constexpr int wide_channels = swizzle_row_bytes / 2;  ///< of a step
inline constexpr int wide_max_pixels_of_copy = 128;
inline constexpr int wide_staging_bytes = 16 << 10;  ///< 2 KB for each consumer warp

/// The layout of packed filters: for each step, which is a block of channels under a tap with the
/// blocks fastest and then s, r, t, a swizzled row of 128 bytes for each filter. Rows are filled up
/// with filters of zeros to whole swizzle atoms, blocks with channels of zeros.
struct WideFilters {
  int taps[3] = {1, 1, 1};  ///< s, r, t
  int channel_blocks = 0;   ///< under each tap
  int rows = 0;             ///< K and what fills it up

  WideFilters() = default;
  explicit WideFilters(const ConvProblem& problem);
  PLUMB_HOST_DEVICE int steps() const { return taps[0] * taps[1] * taps[2] * channel_blocks; }
  std::int64_t step_bytes() const { return std::int64_t{rows} * swizzle_row_bytes; }
  std::size_t bytes() const { return static_cast<std::size_t>(steps() * step_bytes()); }
  /// Returns where the element of a filter begins that is channel `c` of its step.
  std::int64_t at(int step, int k, int c) const {
    constexpr int of_atom = swizzle_rows - 1;
    return step * step_bytes() + std::int64_t{k & ~of_atom} * swizzle_row_bytes +
           swizzle_128((k & of_atom) * swizzle_row_bytes + 2 * c);
  }
};

/// A tile of the product, and the two consumer warpgroups' shares of it.
struct WideShape {
  int m, n;     ///< pixels and filters
  int cluster;  ///< blocks of neighbouring pixels that load their filters together: 1 or 2
  int across;   ///< warpgroups beside each other along the filters: 1 (they share pixels out) or 2

  PLUMB_HOST_DEVICE constexpr int a_bytes() const { return m * swizzle_row_bytes; }
  PLUMB_HOST_DEVICE constexpr int b_bytes() const { return n * swizzle_row_bytes; }
  PLUMB_HOST_DEVICE constexpr int stage_bytes() const { return a_bytes() + b_bytes(); }
  PLUMB_HOST_DEVICE constexpr int stages() const {
    constexpr int block_bytes = 227 << 10, most = 8, barriers = 1 << 10;
    constexpr int room = block_bytes - swizzle_atom_bytes - wide_staging_bytes - barriers;
    return room / stage_bytes() < most ? room / stage_bytes() : most;
  }
  /// Dynamic shared memory of a block, whose stages begin at the first whole atom.
  PLUMB_HOST_DEVICE constexpr int shared_bytes() const {
    return swizzle_atom_bytes + stages() * stage_bytes() + wide_staging_bytes + 16 * stages();
  }
  PLUMB_HOST_DEVICE constexpr int pixels_of_copy() const {
    return m < wide_max_pixels_of_copy ? m : wide_max_pixels_of_copy;
  }
  PLUMB_HOST_DEVICE constexpr int warpgroup_rows() const { return across == 1 ? m / 2 : m; }
  PLUMB_HOST_DEVICE constexpr int warpgroup_columns() const { return n / across; }
  friend constexpr bool operator==(const WideShape&, const WideShape&) = default;
};

/// There are kernels for these tiles. Of equal estimates the first is taken.
inline constexpr WideShape wide_shapes[] = {
    {128, 256, 2, 1}, {256, 128, 2, 1}, {128, 256, 1, 1}, {256, 128, 1, 1}, {128, 192, 1, 1},
    {128, 128, 1, 1}, {256, 64, 1, 1},  {128, 64, 1, 1},  {64, 256, 1, 2},
};
inline constexpr int wide_shape_count = static_cast<int>(std::size(wide_shapes));

/// The tiles of a problem.
struct WideTiles {
  int shape = 0;            ///< of wide_shapes
  int splits = 1;           ///< parts of the reduction, which blocks sum by themselves
  int m_groups = 0;         ///< clusters that cover the pixels
  int n_tiles = 0;          ///< tiles that cover the filters
  double seconds = 0;       ///< predicted
  std::int64_t pixels = 0;  ///< N Z P Q
  std::size_t sums_bytes(const WideFilters& filters) const;  ///< workspace of the splits
  std::int64_t works() const { return std::int64_t{m_groups} * n_tiles * splits; }
};

/// What is to be taken in place of what the model prefers, where it is not negative and not 0.
struct WideChoice {
  int shape = -1, splits = 0;
};

struct WidePlan {
  WideFilters filters;
  Im2colMap map;  ///< without `pixels`
  WideTiles tiles;
};

/// Says whether the kernel takes a problem of tensors stored as `dtype`, of 16 bits.
Support supports_wide(const ConvProblem& problem, DType dtype, const DeviceInfo& device);

/// Says whether eight filters' outputs of a pixel are 16 bytes of y, aligned as such.
bool takes_vectors(const ConvProblem& problem, const void* y);

/// Returns what the copy engine is told to read x by. The problem is one that is supported.
Im2colMap wide_im2col(const ConvProblem& problem);

/// Cuts a problem that is supported, with at least one image.
WideTiles tile_wide(const ConvProblem& problem, const DeviceInfo& device, WideChoice choice = {});

/// Returns the first of a split's steps, and behind the last split the number of all.
PLUMB_HOST_DEVICE constexpr int first_step(int split, int splits, int steps) {
  return static_cast<int>(std::int64_t{steps} * split / splits);
}

}  // namespace plumb::cuda
