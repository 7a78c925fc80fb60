// How a convolution with filters of one tap is cut for the kernel in pointwise_kernel.cuh: host
// code alone.
//
// The product's rows are output pixels, numbered through N (Z) P Q, its columns filters, its terms
// channels. A warp goes from global memory to registers with x, and has packed filters of its block
// in shared memory. README.md draws the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cuda_kernels/primitives/host_device.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

inline constexpr int pointwise_vector_bytes = 16;

/// An arithmetic: what tensors are stored as, and how many products are formed of each term. Those
/// of f32 are of TF32, three of them of high and low halves (wide/wide_halves.cuh).
struct PointwiseClass {
  DType stored;
  int products;

  PLUMB_HOST_DEVICE constexpr int bytes() const { return stored == DType::f32 ? 4 : 2; }
  /// Elements of 16 bytes: of a unit a lane has so many channels, and of a tile so many pixels.
  PLUMB_HOST_DEVICE constexpr int vector() const { return pointwise_vector_bytes / bytes(); }
  /// Channels of a unit: two k steps of an instruction.
  PLUMB_HOST_DEVICE constexpr int unit() const { return 4 * vector(); }
  /// Pixels of a warp's tile.
  PLUMB_HOST_DEVICE constexpr int pixels() const { return 8 * vector(); }
  /// Units that are loaded at a time: 4 KB of a warp in flight.
  PLUMB_HOST_DEVICE constexpr int batch_units() const { return stored == DType::f32 ? 2 : 1; }
  PLUMB_HOST_DEVICE constexpr bool splits() const { return products == 3; }
  PLUMB_HOST_DEVICE constexpr int planes() const { return splits() ? 2 : 1; }
  friend constexpr bool operator==(const PointwiseClass&, const PointwiseClass&) = default;
};
inline constexpr PointwiseClass pointwise_class_fp16{DType::f16, 1},
    pointwise_class_bf16{DType::bf16, 1}, pointwise_class_tf32{DType::f32, 1},
    pointwise_class_tf32x3{DType::f32, 3};

/// Of a lane and a unit, in an n8 tile of filters.
inline constexpr int pointwise_fragment_bytes = 32 * pointwise_vector_bytes;

/// Filters and channels of a place in the packed filters. Lane 4 g + t of an n8 tile has column g,
/// and the channels that a lane with the same t has of x. Tiles that are stored together share out
/// their filters so that a lane's sums are of neighbouring ones.
struct PointwisePlace {
  int filter, channel;  ///< the filter, the first of the lane's channels

  /// `vector` is the class's.
  PLUMB_HOST_DEVICE PointwisePlace(int vector, int n8_tiles, int chunk, int unit, int tile,
                                   int lane)
      : filter(first_filter(vector, n8_tiles, chunk, tile, lane / 8) + lane / 4 % 2),
        channel((unit * 4 + lane % 4) * vector) {}

  /// Tiles of which a lane's filters lie side by side, as many as 16 bytes hold.
  PLUMB_HOST_DEVICE static constexpr int together(int vector, int n8_tiles) {
    return n8_tiles < vector / 2 ? n8_tiles : vector / 2;
  }
  /// The first of the two filters of a tile whose sums a lane with this t has.
  PLUMB_HOST_DEVICE static constexpr int first_filter(int vector, int n8_tiles, int chunk, int tile,
                                                      int t) {
    const int beside = together(vector, n8_tiles);
    return 8 * (chunk * n8_tiles + tile / beside * beside) + 2 * (t * beside + tile % beside);
  }
};

/// The layout of packed filters: for each chunk of 8 · n8_tiles filters, which a warp multiplies at
/// a time, its units; of those its n8 tiles; of those, for each plane (high and low halves where
/// they are split), 16 bytes for each lane (PointwisePlace). Filters and channels beyond the last
/// are zeros. Where they are split the filters as they were follow, K by C.
struct PointwiseFilters {
  PointwiseClass of = pointwise_class_fp16;
  int k = 0, c = 0;
  int n8_tiles = 0;  ///< of a chunk; 0: no chunk fits shared memory
  int chunks = 0, units = 0;

  PointwiseFilters() = default;
  PointwiseFilters(const ConvProblem& problem, const PointwiseClass& of, const DeviceInfo& device);
  PLUMB_HOST_DEVICE int filters_of_chunk() const { return 8 * n8_tiles; }
  PLUMB_HOST_DEVICE int batches() const { return units / of.batch_units(); }
  PLUMB_HOST_DEVICE int chunk_bytes() const {
    return units * n8_tiles * of.planes() * pointwise_fragment_bytes;
  }
  PLUMB_HOST_DEVICE std::int64_t dense_at() const { return std::int64_t{chunks} * chunk_bytes(); }
  std::size_t bytes() const;
};

/// There are kernels for these numbers of n8 tiles.
inline constexpr int pointwise_n8_tiles[] = {1, 4};
/// Warps that hold all channels of a tile through all chunks of filters, in chunks of 4 n8 tiles:
/// up to so many batches, while as many are loaded.
inline constexpr int pointwise_held_batches = 2, pointwise_held_tiles = 4;
/// Warps of a block, which has a multiprocessor's registers.
PLUMB_HOST_DEVICE constexpr int pointwise_warps(int n8_tiles, bool holds) {
  return holds ? 8 : n8_tiles == 1 ? 16 : 12;
}

/// How x comes to registers: vectors of channels that lie side by side in a pixel, vectors of
/// pixels that do in a channel, halves of such vectors, or one element after the other.
enum class PointwiseInput { rows, planes, half_planes, elements };
/// What a lane stores at once: neighbouring filters of a pixel, neighbouring pixels of a filter,
/// half as many of them, or one output.
enum class PointwiseOutput { filters, pixels, half_pixels, elements };

/// Whether a lane has neighbouring pixels of a tile, as vectors of pixels want. Otherwise lanes
/// have.
constexpr bool has_neighbours(PointwiseInput input, PointwiseOutput output) {
  return input == PointwiseInput::planes || input == PointwiseInput::half_planes ||
         output == PointwiseOutput::pixels || output == PointwiseOutput::half_pixels;
}

/// Pixels of images, numbered: axes that follow each other in x and in y are one. The innermost is
/// the first. Strides are in elements. The kernel takes `max_axes`.
struct PointwisePixels {
  static constexpr int max_axes = 3, all_axes = 4;
  int axes = 1;
  std::int64_t extent[all_axes] = {1, 1, 1, 1}, x_step[all_axes] = {}, y_step[all_axes] = {};

  explicit PointwisePixels(const ConvProblem& problem);
  std::int64_t count() const { return extent[0] * extent[1] * extent[2] * extent[3]; }
};

/// How x is read and y is written where they lie at these addresses.
PointwiseInput pointwise_input(const ConvProblem& problem, const PointwiseClass& of, const void* x);
PointwiseOutput pointwise_output(const ConvProblem& problem, const PointwiseFilters& filters,
                                 const void* y);

/// How a slice of the batch is shared out: a block has a group of chunks, and its warps each some
/// of them and a tile of pixels.
struct PointwiseCut {
  int group_chunks = 1;  ///< of a block, in shared memory
  int groups = 1;
  int warps_n = 1;     ///< that have the same pixels and other chunks; they divide a block's warps
  int blocks = 1;      ///< of a group
  bool holds = false;  ///< warps hold a tile's channels: pointwise_held_batches
  double seconds = 0;  ///< predicted
};

/// What is to be taken in place of what the model prefers, where it is not 0.
struct PointwiseChoice {
  int group_chunks = 0, warps_n = 0;
  std::optional<bool> holds = {};  ///< where a warp can
};

struct PointwisePlan {
  PointwiseFilters filters;
  PointwiseCut cut;
  std::int64_t images = 1;  ///< of a slice, which 32 bits can index
  double seconds = 0;       ///< predicted, of all slices

  /// Plans a problem that is supported.
  PointwisePlan(const ConvProblem& problem, const PointwiseClass& of, const DeviceInfo& device,
                PointwiseChoice choice = {});
  int warps() const { return pointwise_warps(filters.n8_tiles, cut.holds); }
  /// Of a block: filters, and their biases in fp32.
  std::size_t shared_bytes() const;
};

/// Says whether the kernel takes a problem in this arithmetic.
Support supports_pointwise(const ConvProblem& problem, const PointwiseClass& of,
                           const DeviceInfo& device);

/// Mistakes that tests plant in the kernel; `none` everywhere else.
enum class PointwiseFault {
  none,
  swapped_terms,   ///< a fragment's first terms are its last ones
  stale_fragment,  ///< a tile's last batch is the one before
  lost_low,        ///< low halves of x are zeros
  low_twice,       ///< the product of high and low halves takes x's low halves
  lost_chunk,      ///< a block's last chunk of filters is left out
  lost_pixel,      ///< the last pixel is left out
  unmasked,        ///< pixels beyond the last are stored; for the host's memory alone
};

}  // namespace plumb::cuda
