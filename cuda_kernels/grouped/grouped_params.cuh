// What the kernel is told, a block's shared memory, and where outputs and x lie.
#pragma once

#include <climits>

#include "cuda_kernels/conv/deep_shape.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/grouped/grouped.hpp"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda {

template <class StoredType>
struct GroupedParams {
  using Stored = StoredType;
  static constexpr int size = static_cast<int>(sizeof(Stored)), unit = grouped_unit_bytes / size;

  const Stored* x;
  const char* filters;  ///< packed
  Stored* y;
  Epilogue<Stored> epilogue;
  DeepShape<int> shape;
  GroupedAxis h, w;
  GroupedFilters packed;
  GroupedCut cut;
  int images, channels;
  Divisor<int> parts{}, tiles_p{}, tiles_q{};
  Divisor<int> image_pixels{}, columns{};  ///< of a tile's outputs
  Divisor<int> m16{};                      ///< fragments of a band
  Divisor<int> under_h{}, under_w{};       ///< of x under a tile: rows, columns
  Divisor<int> stride_h{}, stride_w{};
  Divisor<int> units{}, lane_units{};              ///< of a pixel; of neighbouring lanes
  Divisor<int> vectors{}, row_units{};             ///< of a row, that move at once
  Divisor<int> runs{};                             ///< of a warp's pixels, of a tile
  Divisor<int> rows{};                             ///< of x under a tile, of all images
  Divisor<int> beside{}, tap_rows{}, tap_units{};  ///< of terms
};

/// Where a row of x begins, in elements of x and in bytes of a patch.
struct alignas(8) GroupedRow {
  int from, to;
};
/// Where an output lies, in elements of y from the first filter on, and the pixel of x under its
/// first tap, in halves of a patch.
struct alignas(8) GroupedPlace {
  int to, patch;
};
inline constexpr int grouped_nowhere = INT_MIN;
/// A unit as `SharedRow` counts: whatever x is of, places in a patch are in elements of two bytes.
inline constexpr int grouped_unit_halves = grouped_unit_bytes / 2;

/// A block's shared memory: packed filters of its strips, where the terms lie in a patch
/// (halves from the pixel under an output's first tap), rows and outputs of the tile, its warps'
/// outputs, x under the tile.
template <GroupedShape shape, int size>
class GroupedShared {
 public:
  template <class Params>
  __device__ explicit GroupedShared(const Params& params)
      : terms_at_(params.cut.strips * params.packed.strip_bytes()),
        places_at_(terms_at_ + params.cut.terms_bytes),
        rows_at_(places_at_ + params.cut.places_bytes),
        staged_at_(rows_at_ + params.cut.rows_bytes),
        patch_at_(staged_at_ + params.cut.warps * shape.staged_bytes(size)) {}

  __device__ char* filters() const { return dynamic_shared(); }
  __device__ int* terms() const { return at<int>(terms_at_); }
  /// How far from a pixel's first unit those lie that a bundle of the block sees, in halves.
  template <class Params>
  __device__ int* bundles(const Params& params) const {
    return terms() + 2 * params.packed.steps();
  }
  __device__ GroupedPlace* places() const { return at<GroupedPlace>(places_at_); }
  __device__ GroupedRow* rows() const { return at<GroupedRow>(rows_at_); }
  __device__ char* staged(int warp) const {
    return at<char>(staged_at_ + warp * shape.staged_bytes(size));
  }
  __device__ char* patch() const { return at<char>(patch_at_); }

 private:
  template <class T>
  __device__ static T* at(int byte) {
    return reinterpret_cast<T*>(dynamic_shared() + byte);
  }
  int terms_at_, places_at_, rows_at_, staged_at_, patch_at_;
};

/// The first image, row and column of a tile's outputs, and those of x under its first tap.
struct GroupedTile {
  int n, p, q, h, w;

  template <class Params>
  __device__ GroupedTile(const Params& params, int tile) {
    const auto [above, of_q] = params.tiles_q.divide(tile);
    const auto [of_n, of_p] = params.tiles_p.divide(above);
    n = of_n * params.cut.images, p = of_p * params.cut.rows, q = of_q * params.cut.columns;
    h = p * params.h.stride - params.h.before, w = q * params.w.stride - params.w.before;
  }
};

/// An output of a tile, by its number among those of all warps' fragments. What fills up the last
/// run is the last one again, and what fills up an image's last band the rows above it.
struct GroupedPixel {
  int image, row, column;  ///< of the tile
  bool again;              ///< another one's

  template <class Params>
  __device__ GroupedPixel(const Params& params, int number) {
    const GroupedCut& cut = params.cut;
    const auto [run, fragment] = params.m16.divide(number / 16);
    const int all = cut.images * params.image_pixels.value();
    const int at = cut.bands ? 16 * run + number % 16 : number;
    const auto [of_tile, of_image] = params.image_pixels.divide(min(at, all - 1));
    const auto [of_rows, of_row] = params.columns.divide(of_image);
    const int first = of_rows * params.m16.value();
    image = of_tile, column = of_row;
    row = cut.bands ? min(first, cut.rows - params.m16.value()) + fragment : of_rows;
    again = at >= all || (cut.bands && row < first);
  }
  template <class Params>
  __device__ bool is_there(const Params& params, const GroupedTile& tile) const {
    return !again && tile.n + image < params.images && tile.p + row < params.h.outputs &&
           tile.q + column < params.w.outputs;
  }
  /// Where it lies in y, in elements from the first filter on.
  template <class Params>
  __device__ int of_y(const Params& params, const GroupedTile& tile) const {
    return (tile.n + image) * params.shape.y_n + (tile.p + row) * params.shape.rows.y_step +
           (tile.q + column) * params.shape.columns.y_step;
  }
  /// Where the pixel under its first tap lies in a patch, in halves.
  template <class Params>
  __device__ int of_patch(const Params& params) const {
    return grouped_unit_halves * (image * params.cut.image_units + row * params.cut.row_units +
                                  column * params.cut.pixel_units);
  }
};

/// Where a pixel of x lies in a patch, in units: rows and columns by their phases.
template <class Params>
__device__ int grouped_row_at(const Params& params, int row) {
  const auto [of_phase, phase] = params.stride_h.divide(row);
  return (phase * params.cut.phase_rows + of_phase) * params.cut.row_units;
}
template <class Params>
__device__ int grouped_column_at(const Params& params, int column) {
  const auto [of_phase, phase] = params.stride_w.divide(column);
  return (phase * params.cut.phase_columns + of_phase) * params.cut.pixel_units;
}

}  // namespace plumb::cuda
