// A convolution as the kernel's warps see it, a block's shared memory, and its share of the work.
#pragma once

#include <cstdint>

#include "cuda_kernels/wide/wide_params.cuh"
#include "cuda_kernels/wide_patch/wide_patch.hpp"

namespace plumb::cuda {

/// Mistakes that tests plant in the kernel; `none` everywhere else.
enum class PatchFault {
  none,
  wrong_shift,    ///< the last tap of a line is that of the tap before
  stale_patch,    ///< a tile's last patch is what was there before
  lost_stage,     ///< a tile's last step takes the filters of the step before
  missed_column,  ///< a line's last output is not stored
  no_zeros,       ///< behind a patch are ones
  // Of strides:
  lost_phase,   ///< the products of a plane's last phase are left out
  other_phase,  ///< a plane's last phase has the pixels of the one before
  wrong_begin,  ///< a plane's last phase begins a column behind where it does
};

inline constexpr int patch_consumers = 256, patch_threads = patch_consumers + 128;

template <class Of>
struct PatchParams : WideParams<Of> {
  CUtensorMap next_maps[max_patch_phases - 1]{};  ///< of the phases behind the first
  PatchTile tile{};
  int patch_bytes = 0, patches = 0, stages = 0;
  bool keeps_filters = false;
  int images = 0;                            ///< N
  Divisor<int> tile_columns{}, tile_rows{};  ///< tiles along Q and P
  Divisor<int> pitch{}, lines{};
  int run = 1;               ///< outputs of a filter that are stored at once, line after line
  int patches_of_work = 0;   ///< planes of taps, each with all blocks of channels and phases
  int phases = 1;            ///< of a plane
  int apart[2] = {1, 1};     ///< from a tap of a phase to the next, in its pixels: columns, rows
  int next_tap[2] = {1, 1};  ///< likewise, among the taps of a plane
  PatchPhase phase[max_patch_phases]{};

  PLUMB_HOST_DEVICE const CUtensorMap& map_of(int number) const {
    return number == 0 ? this->map : next_maps[number - 1];
  }
  PLUMB_HOST_DEVICE CUtensorMap& map_of(int number) {
    return number == 0 ? this->map : next_maps[number - 1];
  }
};

/// A tile of a block: its first output, and 64 of a group's filters.
struct PatchWork {
  int n, z, p, q;
  int group, filter;

  template <class Params>
  __device__ PatchWork(const Params& params, int number) {
    const auto [above, filter_tile] = params.n_tiles.divide(number);
    const auto [in_group, of_group] = params.of_group.divide(filter_tile);
    group = in_group, filter = of_group * patch_filters;
    const auto [rows, column] = params.tile_columns.divide(above);
    const auto [planes, row] = params.tile_rows.divide(rows);
    const auto [image, plane] = params.axis[2].outputs.divide(planes);
    n = image * params.tile.images, z = plane;
    p = row * params.tile.rows, q = column * params.tile.columns;
  }
};

/// Where producers or consumers are in a circular buffer, and the parity of its full barriers
/// there. What stays is full in the first round for good.
struct PatchRing {
  int size, stays, number = 0, parity = 0;

  __device__ PatchRing(int of_size, bool of_stays) : size(of_size), stays(of_stays) {}
  __device__ void advance() {
    if (++number == size) number = 0, parity ^= 1 - stays;
  }
  /// Passes over so many, which another warpgroup takes.
  __device__ void skip(int count) {
    const int rounds = (number + count) / size;
    number += count - rounds * size;
    parity ^= rounds & (1 - stays);
  }
};

/// A block's shared memory: patches, stages of filters, what consumer warps stage, barriers, and
/// where outputs are.
class PatchShared {
 public:
  template <class Params>
  __device__ explicit PatchShared(const Params& params) : patch_bytes_(params.patch_bytes) {
    const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(dynamic_shared()));
    patches_ = dynamic_shared() + (-at & (swizzle_atom_bytes - 1));
    filters_ = patches_ + params.patches * params.patch_bytes;
    staged_ = filters_ + params.stages * patch_stage_bytes;
  }
  __device__ char* patch(int number) const { return patches_ + number * patch_bytes_; }
  __device__ char* filters(int stage) const { return filters_ + stage * patch_stage_bytes; }
  __device__ char* staged(int warp) const { return staged_ + warp * (patch_staging_bytes / 8); }
  /// A PatchTable.
  __device__ char* table() const { return staged(8) + patch_barrier_bytes; }
  __device__ StageBarrier& full_patch(int number) const {
    return reinterpret_cast<StageBarrier*>(staged(8))[number];
  }
  __device__ Mbarrier& empty_patch(int number) const { return barrier(max_patches + number); }
  /// Complete when the warpgroup may multiply its next tile.
  __device__ Mbarrier& turn(int warpgroup) const { return barrier(2 * max_patches + warpgroup); }
  __device__ StageBarrier& full(int stage) const {
    return reinterpret_cast<StageBarrier*>(staged(8))[2 * max_patches + 2 + stage];
  }
  __device__ Mbarrier& empty(int stage) const {
    return barrier(2 * max_patches + 2 + max_stages + stage);
  }

 private:
  static constexpr int max_patches = 4, max_stages = 32;
  __device__ Mbarrier& barrier(int number) const {
    return reinterpret_cast<Mbarrier*>(staged(8))[number];
  }

  char *patches_, *filters_, *staged_;
  int patch_bytes_;
};
static_assert(sizeof(StageBarrier) == 8 && sizeof(Mbarrier) == 8);

}  // namespace plumb::cuda
