// Blocks by AMX: four tiles of sums, each step two tiles of positions and two of filters.
#include "cpu_kernels/tiles/tiles.inl"

namespace plumb {
namespace {

/// The operand of LDTILECFG: palette 1, eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);
constexpr TileConfiguration configuration{};

void begin() { _tile_loadconfig(&configuration); }
void end() { _tile_release(); }

constexpr int row_bytes = block_side * sizeof(float);

/// The position where the last tile begins: it ends with the last one that is wanted, and may have
/// some of the tile before.
inline std::int64_t last_tile(const TileBlock& block) {
  return block.positions > tile_side ? block.positions - tile_side : 0;
}

/// 17 to 32 filters. Tiles 0 to 3 are sums, of positions and filters 0 and 1; 4 and 5 positions, 6
/// and 7 filters.
template <bool two>
void multiply_square(const TileBlock& block) {
  const std::int64_t step_bytes = block.step * std::int64_t{sizeof(BFloat16)};
  const std::int64_t second = last_tile(block);
  const BFloat16* w = block.filters;
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (two) _tile_zero(2);
  if constexpr (two) _tile_zero(3);
  for (std::int64_t i = 0; i < block.steps; ++i, w += step_filters) {
    const BFloat16* const x = block.slab + block.offsets[i];
    _tile_loadd(4, x, step_bytes);
    _tile_loadd(6, w, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, w + block.steps * step_filters, 64);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (two) {
      _tile_loadd(5, x + second * block.step, step_bytes);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, block.sums, row_bytes);
  _tile_stored(1, block.sums + tile_side, row_bytes);
  if constexpr (two) {
    _tile_stored(2, block.sums + second * block_side, row_bytes);
    _tile_stored(3, block.sums + second * block_side + tile_side, row_bytes);
  }
}

/// Up to 16 filters. Tiles 0 to 3 are sums, 4 and 5 positions in turns, 6 filters.
template <int tiles>
void multiply_column(const TileBlock& block) {
  const std::int64_t step_bytes = block.step * std::int64_t{sizeof(BFloat16)};
  const std::int64_t last = last_tile(block);
  const BFloat16* w = block.filters;
  _tile_zero(0);
  if constexpr (tiles > 1) _tile_zero(1);
  if constexpr (tiles > 2) _tile_zero(2);
  if constexpr (tiles > 3) _tile_zero(3);
  for (std::int64_t i = 0; i < block.steps; ++i, w += step_filters) {
    const BFloat16* const x = block.slab + block.offsets[i];
    const BFloat16* const x_last = x + last * block.step;
    _tile_loadd(6, w, 64);
    _tile_loadd(4, x, step_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (tiles > 1) {
      _tile_loadd(5, tiles > 2 ? x + tile_side * block.step : x_last, step_bytes);
      _tile_dpbf16ps(1, 5, 6);
    }
    if constexpr (tiles > 2) {
      _tile_loadd(4, tiles > 3 ? x + 2 * tile_side * block.step : x_last, step_bytes);
      _tile_dpbf16ps(2, 4, 6);
    }
    if constexpr (tiles > 3) {
      _tile_loadd(5, x_last, step_bytes);
      _tile_dpbf16ps(3, 5, 6);
    }
  }
  float* const sums_last = block.sums + last * block_side;
  _tile_stored(0, block.sums, row_bytes);
  if constexpr (tiles > 1)
    _tile_stored(1, tiles > 2 ? block.sums + tile_side * block_side : sums_last, row_bytes);
  if constexpr (tiles > 2)
    _tile_stored(2, tiles > 3 ? block.sums + 2 * tile_side * block_side : sums_last, row_bytes);
  if constexpr (tiles > 3) _tile_stored(3, sums_last, row_bytes);
}

void multiply(const TileBlock& block) {
  const int tiles = (block.positions + tile_side - 1) / tile_side;
  if (block.filter_count > tile_side)
    return tiles > 1 ? multiply_square<true>(block) : multiply_square<false>(block);
  switch (tiles) {
    case 1: return multiply_column<1>(block);
    case 2: return multiply_column<2>(block);
    case 3: return multiply_column<3>(block);
    default: return multiply_column<4>(block);
  }
}

}  // namespace

const TileKernels tiles_kernels_amx{.begin = &begin,
                                    .end = &end,
                                    .multiply = &multiply,
                                    .may_have_nan = &may_have_nan,
                                    .store = &store_block,
                                    .turn = &turn};

}  // namespace plumb
