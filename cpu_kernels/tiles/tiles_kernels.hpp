// What of cpu.conv.tiles is compiled for an instruction set: blocks of 32 positions by 32 filters,
// from bf16 that lies in pairs of terms. It is plain data, because sources for several instruction
// sets share it.
#pragma once

#include <cstdint>

#include "plumb/types.hpp"

namespace plumb {

inline constexpr int tile_side = 16;   ///< positions, or filters, of a tile
inline constexpr int tile_terms = 32;  ///< terms of a step
inline constexpr int block_side = 2 * tile_side;

/// Sums of a block. Position i has its terms at slab + i step, `tile_terms` of them behind each of
/// the offsets. Filters are packed: [step][half of 16 filters][pair of terms][filter][of the pair].
struct TileBlock {
  const BFloat16* slab;
  std::int64_t step;  ///< elements
  const std::int64_t* offsets;
  std::int64_t steps;
  const BFloat16* filters;
  int positions, filter_count;  ///< that are wanted, at most `block_side`
  bool fetches;                 ///< the filters are not in a cache of the core
  float* sums;                  ///< [position][block_side]
};

/// Where a block's sums go.
struct TileStore {
  const float* sums;         ///< as above
  const float* bias;         ///< of the block's filters
  const std::int64_t* y_at;  ///< of each position, in elements
  BFloat16* y;               ///< of the block's first filter
  std::int64_t y_k;          ///< from a filter to the next
  int positions, filter_count;
  bool accumulate, relu;
};

struct TileKernels {
  void (*begin)();  ///< before the first block of a thread
  void (*end)();    ///< behind the last
  void (*multiply)(const TileBlock&);
  bool (*any_nan)(const TileBlock&);  ///< of its sums
  void (*store)(const TileStore&);
  /// Copies planes, whose pixels lie side by side, to pixels, whose channels do.
  void (*turn)(const BFloat16* planes, std::int64_t plane_step, std::int64_t pixels,
               std::int64_t channels, BFloat16* to);
};

extern const TileKernels tiles_kernels_avx512_bf16, tiles_kernels_amx;

}  // namespace plumb
