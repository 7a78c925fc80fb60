// What of cpu.conv.tiles is compiled for an instruction set: blocks of 32 positions by 32 filters
// or of 64 by 16, from bf16 that lies in pairs of terms. It is plain data, because sources for
// several instruction sets share it.
#pragma once

#include <cstdint>
#include <limits>

#include "plumb/types.hpp"

namespace plumb {

inline constexpr int tile_side = 16;   ///< positions, or filters, of a tile
inline constexpr int tile_terms = 32;  ///< terms of a step
inline constexpr int block_side = 2 * tile_side;
inline constexpr int step_filters = tile_side * tile_terms;  ///< packed elements of a step
inline constexpr int max_positions = 4 * tile_side;
/// Where a position is not stored.
inline constexpr std::int64_t no_output = std::numeric_limits<std::int64_t>::min();

/// Sums of a block. Position i has its terms at slab + i step, `tile_terms` of them behind each of
/// the offsets; 16 positions may be read where fewer are wanted. Filters are packed: [16 of
/// them][step][pair of terms][filter][of the pair].
struct TileBlock {
  const BFloat16* slab;
  std::int64_t step;  ///< elements
  const std::int64_t* offsets;
  std::int64_t steps;
  const BFloat16* filters;
  int positions, filter_count;  ///< at most `block_side`, or `max_positions` and `tile_side`
  float* sums;                  ///< [position][block_side]
};

/// Where a block's sums go.
struct TileStore {
  const float* sums;         ///< as above
  const float* bias;         ///< of the block's filters
  const std::int64_t* y_at;  ///< of each position, in elements, or no_output
  BFloat16* y;               ///< of the block's first filter
  std::int64_t y_k;          ///< from a filter to the next
  int positions, filter_count;
  bool accumulate, relu;
};

/// Channels of a row of pixels.
struct TilePlanes {
  const BFloat16* from;
  std::int64_t step, channels;
  std::int64_t apart;  ///< from a pixel to the next: 1 or 2
};

struct TileKernels {
  void (*begin)();  ///< before the first block of a thread
  void (*end)();    ///< behind the last
  void (*multiply)(const TileBlock&);
  bool (*may_have_nan)(const TileBlock&);  ///< among its sums; true where there is one
  void (*store)(const TileStore&);
  /// Copies planes to pixels, whose channels lie side by side.
  void (*turn)(const TilePlanes&, std::int64_t pixels, BFloat16* to);
};

extern const TileKernels tiles_kernels_avx512_bf16, tiles_kernels_amx;

}  // namespace plumb
