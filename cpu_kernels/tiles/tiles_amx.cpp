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

// Tiles 0 to 3 are sums, of positions and filters 0 and 1; 4 and 5 positions, 6 and 7 filters.
template <bool positions, bool filters>
void multiply_steps(const TileBlock& block) {
  constexpr int row_bytes = block_side * sizeof(float), half = tile_side * tile_terms;
  const std::int64_t step_bytes = block.step * std::int64_t{sizeof(BFloat16)};
  const BFloat16* w = block.filters;
  _tile_zero(0);
  if constexpr (filters) _tile_zero(1);
  if constexpr (positions) _tile_zero(2);
  if constexpr (positions && filters) _tile_zero(3);
  for (std::int64_t i = 0; i < block.steps; ++i, w += 2 * half) {
    const BFloat16* const x = block.slab + block.offsets[i];
    if (block.fetches) fetch_filters(w);
    _tile_loadd(4, x, step_bytes);
    _tile_loadd(6, w, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (filters) {
      _tile_loadd(7, w + half, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (positions) {
      _tile_loadd(5, x + tile_side * block.step, step_bytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (positions && filters) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, block.sums, row_bytes);
  if constexpr (filters) _tile_stored(1, block.sums + tile_side, row_bytes);
  if constexpr (positions) _tile_stored(2, block.sums + tile_side * block_side, row_bytes);
  if constexpr (positions && filters)
    _tile_stored(3, block.sums + tile_side * block_side + tile_side, row_bytes);
}

void multiply(const TileBlock& block) {
  const bool positions = block.positions > tile_side, filters = block.filter_count > tile_side;
  if (positions && filters)
    multiply_steps<true, true>(block);
  else if (positions)
    multiply_steps<true, false>(block);
  else if (filters)
    multiply_steps<false, true>(block);
  else
    multiply_steps<false, false>(block);
}

}  // namespace

const TileKernels tiles_kernels_amx{.begin = &begin,
                                    .end = &end,
                                    .multiply = &multiply,
                                    .any_nan = &any_nan,
                                    .store = &store_block,
                                    .turn = &turn};

}  // namespace plumb
