// How a convolution is cut for the kernel in wide_patch_kernel.cuh: host code alone.
//
// The product's rows are 64 filters, its columns positions of a patch of x: the pixels under some
// outputs and the halo around them, line after line, each a swizzled row of 128 bytes of channels.
// A tap is a shift of all positions. What lies between one line's outputs and the next line's is
// computed and not stored. Where rows or columns have a stride a patch has the pixels of one phase
// (wide_patch_phases.hpp), and the patches of all phases are alike, so that an output has the same
// position in each.
//
// Of filters of one tap planes of x may be operands as they lie: then a patch has a row of 128
// bytes of pixels for each channel, 64 channels of 64 pixels after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include "cuda_kernels/primitives/host_device.hpp"
#include "cuda_kernels/primitives/tiled_map.hpp"
#include "cuda_kernels/wide/wide_filters.hpp"
#include "cuda_kernels/wide/wide_input.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

inline constexpr int patch_filters = 64;  ///< of a tile: what one warpgroup multiplies
inline constexpr int patch_stage_bytes = patch_filters * swizzle_row_bytes;
inline constexpr int patch_staging_bytes = 16 << 10;  ///< 2 KB for each consumer warp

/// Each phase of rows and columns that has taps has a tensor map.
inline constexpr int max_patch_phases = 9;

inline constexpr int patch_barrier_bytes = 1 << 10;
inline constexpr int patch_table_bytes = 5 << 10;  ///< where outputs are in y

/// There are kernels of so many n8 tiles of positions.
inline constexpr int patch_n8_tiles[] = {8, 16, 26, 27, 29, 31, 32};
inline constexpr int patch_kernels = static_cast<int>(std::size(patch_n8_tiles));
/// Whether there is one of half of a step's products too, for channels that fill no more.
constexpr bool has_half_steps(int n8_tiles) { return n8_tiles % 8 == 0; }

/// A tile of outputs of one plane and the patch of x under it.
struct PatchTile {
  int images = 1, rows = 1, columns = 1;  ///< outputs along N, P, Q; whole images where several
  int pitch = 1;                          ///< positions of a line of the patch
  int lines = 1;                          ///< of each image in the patch
  int behind = 0;                         ///< positions behind the patch that must be zeros

  /// From the first output's position to behind the last one's.
  constexpr int positions() const { return ((images - 1) * lines + rows - 1) * pitch + columns; }
  PLUMB_HOST_DEVICE constexpr int patch_positions() const { return images * lines * pitch; }
  /// Of a patch in shared memory.
  PLUMB_HOST_DEVICE constexpr int patch_bytes() const {
    return (patch_positions() + behind + swizzle_rows - 1) / swizzle_rows * swizzle_atom_bytes;
  }
  friend constexpr bool operator==(const PatchTile&, const PatchTile&) = default;
};

/// What is to be taken in place of what the model prefers, where it is not 0, or not negative.
struct PatchChoice {
  int images = 0, rows = 0, columns = 0;
  int across = -1;  ///< 1: planes as they lie where they can be, 0: repacked
};

struct PatchTiles {
  PatchTile tile;
  int kernel = -1;                        ///< of patch_n8_tiles; negative: no tile fits
  int patches = 0, stages = 0;            ///< in shared memory, of patches and of filters
  bool keeps_filters = false;             ///< a stage for each step, which stays
  bool half_steps = false;                ///< channels fill at most half of a step
  int filter_tiles = 0;                   ///< of a group
  int groups = 1;                         ///< of filters
  int images = 0;                         ///< tiles along N
  int planes = 0, rows = 0, columns = 0;  ///< tiles along Z, P, Q
  double seconds = 0;                     ///< predicted

  double works() const {
    return static_cast<double>(images) * planes * rows * columns * filter_tiles * groups;
  }
  int patch_bytes() const { return patches * tile.patch_bytes(); }
  int shared_bytes() const;
  void cover(std::int64_t n);  ///< so many images
};

/// A phase as the kernel goes through it: columns and rows.
struct PatchPhase {
  int begin[2] = {};     ///< where the first output's taps begin, in the phase's pixels
  int taps[2] = {1, 1};  ///< of the phase
  int tap = 0;           ///< the first of them among those of a plane
};

struct PatchPlan {
  WideFilters filters;
  WideInput input;
  PatchTiles tiles;
  /// Where planes of x are read as they lie, if x is aligned: tiles of each image by itself.
  std::optional<PatchTiles> across{};

  /// Plans a problem that is supported.
  PatchPlan(const ConvProblem& problem, const WideClass& of, const DeviceInfo& device,
            PatchChoice choice = {});
  std::size_t workspace_bytes() const;
};

/// Whether rows or columns have a stride.
bool has_patch_stride(const ConvProblem& problem);

/// Says whether the kernel takes a problem in this arithmetic.
Support supports_wide_patch(const ConvProblem& problem, const WideClass& of,
                            const DeviceInfo& device);

/// Returns the tiles that are predicted to take the least time, or none.
PatchTiles tile_patches(const ConvProblem& problem, const WideFilters& filters,
                        const WideInput& input, const DeviceInfo& device, PatchChoice choice = {});

/// Returns a phase of a problem that is supported, by its number.
PatchPhase patch_phase(const ConvProblem& problem, int phase);

/// What the copy engine is told to read a phase of x by.
struct PatchMap {
  TiledMap map;
  std::int64_t first_byte = 0;  ///< where the map's tensor begins in x
};
/// Returns that of x as it lies or repacked: its axes are C W H D N, a box one patch.
PatchMap patch_map(const ConvProblem& problem, const WideFilters& filters, const PatchTile& tile,
                   const WideInput* repacked, int phase);

/// Returns how many outputs of a filter, at most 16 bytes of them, lie side by side and aligned
/// wherever such a number of a tile's outputs, line after line, begins. A power of two.
int run_of_outputs(const ConvProblem& problem, const PatchTile& tile, const void* y);

/// Pixels of one copy of planes as they lie, and the channels of a patch.
inline constexpr int patch_across_pixels = 64;
/// Returns what the copy engine is told to read planes of a flat problem by: its axes are W C N.
TiledMap patch_across_map(const ConvProblem& flat);

}  // namespace plumb::cuda
