// Where a tile's outputs are in y. Tiles are alike, so that a block finds it once, for all of its
// tiles: to divide positions and to multiply strides for each store takes longer than the products.
#pragma once

#include "cuda_kernels/primitives/thread_anew.cuh"
#include "cuda_kernels/wide_patch/wide_patch_params.cuh"

namespace plumb::cuda {

inline constexpr int patch_warp_filters = 16;  ///< of a warp

/// An output of a tile, if there is one.
struct alignas(16) PatchPlace {
  /// Column, row and image in the tile, ten bits each, of which the highest is a guard. The column
  /// of no output is behind every tile's last.
  static constexpr int bits = 10, mask = (1 << (bits - 1)) - 1;
  static constexpr std::int32_t guards =
      1 << (bits - 1) | 1 << (2 * bits - 1) | 1 << (3 * bits - 1);

  std::int64_t y = 0;  ///< elements from the tile's first output of the filter
  std::int32_t at = mask;

  __device__ static std::int32_t packed(int column, int row, int image) {
    return image << 2 * bits | row << bits | column;
  }
  __device__ int column() const { return at & mask; }
  __device__ int row() const { return at >> bits & mask; }
  __device__ int image() const { return at >> 2 * bits & mask; }
  /// Whether no coordinate is beyond those that `last` has packed.
  __device__ bool is_within(std::int32_t last) const {
    return (((last | guards) - at) & guards) == guards;
  }
};

/// A block's table. Outputs are numbered line after line and image after image, whatever lies
/// between them in the patch.
struct PatchTable {
  static constexpr int max_positions = 256;

  PatchPlace places[max_positions];  ///< by position, or by number where outputs are stored in runs
  std::int16_t numbers[max_positions];         ///< by position; negative where there is none
  std::int16_t before[max_positions / 8 + 1];  ///< outputs before each n8 tile

  /// Fills the table in. All threads call it, and meet afterwards.
  template <PatchFault fault, class Params>
  __device__ void fill(const Params& params, int thread, int threads) {
    const PatchTile& tile = params.tile;
    const int outputs = tile.images * tile.rows * tile.columns;
    for (int position = thread; position <= max_positions; position += threads) {
      const auto [lines, column] = params.pitch.divide(position);
      const auto [image, row] = params.lines.divide(lines);
      const bool in_line = row < tile.rows;
      const int line = image * tile.rows + min(row, tile.rows);
      if (position % 8 == 0)
        before[position / 8] = static_cast<std::int16_t>(
            min(line * tile.columns + (in_line ? min(column, tile.columns) : 0), outputs));
      if (position == max_positions) continue;
      const int number = line * tile.columns + column;
      const bool is_output = column < tile.columns && in_line && image < tile.images;
      const int staged_at_once = params.run == 1 ? 1 : 2;
      const bool is_missed =
          fault == PatchFault::missed_column && column + staged_at_once >= tile.columns;
      PatchPlace place;
      if (is_output && !is_missed)
        place = {image * params.y_n + row * params.axis[1].y_step + column * params.axis[0].y_step,
                 PatchPlace::packed(column, row, image)};
      numbers[position] = static_cast<std::int16_t>(is_output && !is_missed ? number : -1);
      if (params.run == 1)
        places[position] = place;
      else if (is_output)
        places[number] = place;
    }
  }
};
static_assert(sizeof(PatchTable) <= patch_table_bytes);

/// A warp's filters of a tile.
struct PatchFilters {
  int first, count;  ///< of all filters; those of the group that there are

  template <class Params>
  __device__ PatchFilters(const Params& params, const PatchWork& work) {
    const int in_group = work.filter + static_cast<int>(threadIdx.x / 32 % 4) * patch_warp_filters;
    first = work.group * params.groups.filters + in_group;
    count = params.groups.filters - in_group;
  }
  __device__ bool has(int filter) const { return filter < count; }
};

/// A tile's outputs of a warp's filters.
template <class Params>
class PatchTileOutputs {
 public:
  using Stored = typename Params::Stored;

  __device__ PatchTileOutputs(const Params& params, const PatchTable& table, const PatchWork& work)
      : filters(params, work), params_(params), table_(table), work_(work) {
    y_ = params.y + params.y_of({work.n, {work.q, work.p, work.z}}) + filters.first * params.y_k;
    last_ =
        PatchPlace::packed(min(params.tile.columns, params.axis[0].outputs.value() - work.q) - 1,
                           min(params.tile.rows, params.axis[1].outputs.value() - work.p) - 1,
                           min(params.tile.images, params.images - work.n) - 1);
  }
  const PatchFilters filters;

  __device__ const PatchTable& table() const { return table_; }
  /// The place of a position; of outputs that are stored in runs, of a number.
  __device__ PatchPlace place(int number) const { return table_.places[number]; }
  __device__ PatchPlace at_position(int position) const {
    if (params_.run == 1) return place(position);
    const int number = table_.numbers[position];
    return number < 0 ? PatchPlace{} : place(number);
  }
  __device__ bool has(const PatchPlace& at) const { return at.is_within(last_); }
  /// Where outputs of one of the warp's filters begin, as places count.
  __device__ Stored* y_of(int filter) const { return y_ + filter * params_.y_k; }
  __device__ WidePixel pixel(const PatchPlace& at) const {
    return {work_.n + at.image(), {work_.q + at.column(), work_.p + at.row(), work_.z}};
  }

 private:
  const Params& params_;
  const PatchTable& table_;
  const PatchWork& work_;
  Stored* y_;
  std::int32_t last_;  ///< coordinates of the tile's last output in y
};

}  // namespace plumb::cuda
