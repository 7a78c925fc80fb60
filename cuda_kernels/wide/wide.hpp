// How a convolution of many channels is cut for the kernel in wide_kernel.cuh: host code alone.
//
// The product's rows are output pixels, numbered through N (Z) P Q, its columns filters, its terms
// the channels under the filter's taps. A step of the reduction is the channels of 128 bytes under
// one tap: rows that the copy engine writes swizzled (primitives/swizzle.hpp) and wgmma reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include "cuda_kernels/primitives/host_device.hpp"
#include "cuda_kernels/wide/wide_filters.hpp"
#include "cuda_kernels/wide/wide_input.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

inline constexpr int wide_max_pixels_of_copy = 128;
inline constexpr int wide_slot_bytes = 16
                                       << 10;  ///< of staged outputs: 2 KB for each consumer warp
inline constexpr int wide_consumer_warps = 8;
inline constexpr int wide_slots = 2;  ///< one is filled while the copy engine reads the other

/// A tile of the product, and the two consumer warpgroups' shares of it.
struct WideShape {
  int m, n;    ///< pixels and filters
  int across;  ///< warpgroups beside each other along the filters: 1 (they share pixels out) or 2
  int filter_planes = 1;  ///< in a stage: 2 of filters that were split

  PLUMB_HOST_DEVICE constexpr int a_bytes() const { return m * swizzle_row_bytes; }
  PLUMB_HOST_DEVICE constexpr int b_bytes() const { return n * swizzle_row_bytes; }
  PLUMB_HOST_DEVICE constexpr int stage_bytes() const {
    return a_bytes() + filter_planes * b_bytes();
  }
  PLUMB_HOST_DEVICE constexpr int stages() const {
    constexpr int block_bytes = 227 << 10, most = 8, barriers = 1 << 10;
    constexpr int room = block_bytes - swizzle_atom_bytes - wide_slots * wide_slot_bytes - barriers;
    return room / stage_bytes() < most ? room / stage_bytes() : most;
  }
  /// Dynamic shared memory of a block, whose stages begin at the first whole atom.
  PLUMB_HOST_DEVICE constexpr int shared_bytes() const {
    return swizzle_atom_bytes + stages() * stage_bytes() + wide_slots * wide_slot_bytes +
           16 * stages() + 8 * wide_consumer_warps;
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
    {128, 256, 1}, {256, 128, 1}, {128, 192, 1}, {128, 128, 1},
    {256, 64, 1},  {128, 64, 1},  {64, 256, 2},
};
inline constexpr int wide_shape_count = static_cast<int>(std::size(wide_shapes));

/// Returns the shape of that number, with as many planes of filters in a stage as the class has.
PLUMB_HOST_DEVICE constexpr WideShape wide_shape(const WideClass& of, int number) {
  WideShape shape = wide_shapes[number];
  shape.filter_planes = of.filter_planes();
  return shape;
}
/// Whether pixels go through registers to the tensor cores: those that are split there, and planes
/// of TF32, which wgmma does not take from shared memory.
constexpr bool pixels_in_registers(const WideClass& of, bool across) {
  return of.splits_in_registers() || (across && of.operand == DType::f32);
}
/// Whether there is a kernel for the tile. Where pixels go through registers there are few tiles:
/// memory bounds the layers that it is for.
constexpr bool has_wide_shape(const WideClass& of, bool across, int number) {
  if (!pixels_in_registers(of, across)) return true;
  const WideShape& shape = wide_shapes[number];
  // Halves of both fragments that are under way leave so many registers for sums.
  const int max_outputs = of.splits_in_registers() ? 128 * 128 : 256 * 128;
  return shape.across == 1 && shape.n != 192 && shape.m * shape.n <= max_outputs;
}

/// The tiles of a problem.
struct WideTiles {
  int shape = 0;            ///< of wide_shapes
  int splits = 1;           ///< parts of the reduction, which blocks sum by themselves
  int cluster = 1;          ///< blocks that share the steps of a tile, of those behind whole()
  int cluster_blocks = 0;   ///< of such clusters, that the device holds at once
  int m_tiles = 0;          ///< that cover the pixels
  int n_tiles = 0;          ///< that cover a group's filters
  int groups = 1;           ///< of filters
  double seconds = 0;       ///< predicted
  std::int64_t pixels = 0;  ///< N Z P Q

  std::size_t sums_bytes(const WideFilters& filters) const;  ///< workspace of the splits
  std::int64_t tiles() const { return std::int64_t{m_tiles} * n_tiles * groups; }
  /// Tiles that a block sums by itself: all, or as many as fill the device's clusters some times,
  /// where there is a cluster for each of the others.
  std::int64_t whole() const;
  std::int64_t works() const { return splits * (whole() + cluster * (tiles() - whole())); }
  void cover(std::int64_t pixels_of_images);  ///< the pixels of some of the images
};

/// What is to be taken in place of what the model prefers, where it is not negative and not 0.
struct WideChoice {
  int shape = -1, splits = 0;
  int folded_axes = -1;  ///< a WideFold's
  int across = -1;       ///< 1: planes as they lie where they can be, 0: repacked
  int cluster = 0;       ///< 1: none
};

/// Where the parts of workspace begin, in bytes: the repacked x, the magnitudes of images' parts,
/// the images' scales, the sums of splits.
struct WideWorkspace {
  std::size_t magnitudes = 0, scales = 0, sums = 0, bytes = 0;
};

struct WidePlan {
  WideFilters filters;
  WideInput input;
  WideTiles tiles;
  /// Where planes of x are read as they lie, if x is aligned: tiles of each image by itself,
  /// without splits, whose pixels are those of whole tiles.
  std::optional<WideTiles> across{};
  WideWorkspace workspace;

  /// Plans a problem that is supported.
  WidePlan(const ConvProblem& problem, const WideClass& of, const DeviceInfo& device,
           WideChoice choice = {});
};

/// Says whether the kernel takes a problem in this arithmetic.
Support supports_wide(const ConvProblem& problem, const WideClass& of, const DeviceInfo& device);

/// The same of what is left to the product where some axes are folded, on any device.
Support supports_folded(const ConvProblem& problem, const WideClass& of, int folded_axes);
/// Says whether numbers of pixels, steps, filters and tiles are fit for 32 bits, with room for a
/// tile beyond the last.
Support supports_wide_counts(const ConvProblem& problem, const WideClass& of);
/// Says yes where this build has wgmma for the device.
Support supports_wgmma(const DeviceInfo& device);

/// Returns the axes to fold: those by which many images are predicted to take the least time. It
/// does not depend on N, as the layout of packed filters must not.
int choose_folded_axes(const ConvProblem& problem, const WideClass& of, const DeviceInfo& device);

/// What a lane moves at once between y and the shared memory where outputs are staged.
enum class WideAccess {
  elements,
  filters,      ///< 16 aligned bytes: outputs of a pixel, of neighbouring filters
  pixels,       ///< 16 aligned bytes: outputs of a filter, of neighbouring pixels
  half_pixels,  ///< 8 aligned bytes of them
};
WideAccess access_of_outputs(const ConvProblem& problem, const WideGroups& groups, const void* y);

/// Cuts a problem that is supported, with at least one image.
WideTiles tile_wide(const ConvProblem& problem, const WideFilters& filters, const WideInput& input,
                    const DeviceInfo& device, WideChoice choice = {});

/// The most blocks of a cluster. Each has whole warps' sums to add.
inline constexpr int wide_max_cluster = wide_consumer_warps;
/// Returns how many clusters of so many blocks, a power of two, any chip with so many
/// multiprocessors holds at once, a block on each. A cluster lies in one of up to eight GPCs. Each
/// GPC has an even number of multiprocessors, which differs from chip to chip, so that it may leave
/// up to blocks - 2 of them over. One cluster too many would wait until others end, and take as
/// long again.
constexpr int wide_clusters(int units, int blocks) {
  constexpr int gpcs = 8;
  const int left_over = gpcs * (blocks - 2);
  return units > left_over ? (units - left_over) / blocks : 0;
}

/// Returns the first of a split's steps, and behind the last split the number of all. There are
/// fewer than 2^26 steps (supports_wide()).
PLUMB_HOST_DEVICE constexpr int first_step(int split, int splits, int steps) {
  return static_cast<int>(static_cast<std::uint32_t>(steps) * static_cast<std::uint32_t>(split) /
                          static_cast<std::uint32_t>(splits));
}

}  // namespace plumb::cuda
