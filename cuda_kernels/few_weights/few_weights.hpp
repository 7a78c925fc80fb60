// Backward weights of few channels on tensor cores: how a problem is cut, what its kernels are
// told, and their launches. Host code alone; README.md draws the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/primitives/host_device.hpp"
#include "cuda_kernels/weights/weights.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// The arithmetic of an entry: what tensors hold, what is multiplied, and in how many products.
struct FewWeightsClass {
  DType stored = DType::f32, operand = DType::f16;
  int products = 1;
  bool operator==(const FewWeightsClass&) const = default;
  PLUMB_HOST_DEVICE constexpr bool scales() const { return stored == DType::f32; }
  PLUMB_HOST_DEVICE constexpr bool splits() const { return products == 3; }
  PLUMB_HOST_DEVICE constexpr int halves() const { return splits() ? 2 : 1; }
  PLUMB_HOST_DEVICE constexpr int stored_bytes() const { return stored == DType::f32 ? 4 : 2; }
};
inline constexpr FewWeightsClass few_weights_fp16_class{DType::f16, DType::f16, 1};
inline constexpr FewWeightsClass few_weights_bf16_class{DType::bf16, DType::bf16, 1};
inline constexpr FewWeightsClass few_weights_fp16_scaled_class{DType::f32, DType::f16, 1};
inline constexpr FewWeightsClass few_weights_fp16x3_class{DType::f32, DType::f16, 3};

/// The sums of a warp: tiles of 16 rows of the product by 8 columns.
struct FewWeightsTile {
  int m = 1, n = 1;
  bool operator==(const FewWeightsTile&) const = default;
};
inline constexpr FewWeightsTile few_weights_tiles[] = {{1, 1}, {1, 2}, {1, 4},
                                                       {2, 2}, {2, 4}, {4, 2}};
/// Of large tiles a warp takes more registers than two blocks leave it.
PLUMB_HOST_DEVICE constexpr int few_weights_blocks_at_once(const FewWeightsTile& tile,
                                                           const FewWeightsClass& of) {
  return tile.m * tile.n * (of.splits() ? 3 : 2) > 16 ? 1 : 2;
}

inline constexpr int few_weights_warps = 8;         ///< of a block, at most
inline constexpr int few_weights_step = 16;         ///< positions that a product goes over
inline constexpr int few_weights_max_steps = 128;   ///< that a warp sums before its sums are moved
inline constexpr int few_weights_range_passes = 4;  ///< over a unit, where magnitudes lie far apart

/// How a problem is cut, from its sizes and arithmetic alone: it is the order of the sums. Rows of
/// the product are filters and tap rows j, its columns channels and taps (t, i, s), where tap row
/// r = i + inner j. Terms are rows b of the input and columns q: output row p = b - shift j.
struct FewWeightsCut {
  FewWeightsTile tile;
  int outer = 1, inner = 1;                   ///< tap rows of rows and of columns of the product
  int shift = 0;                              ///< output rows from one j to the next
  int row_planes = 1, max_row_shift = 0;      ///< as WeightsSizes has them of columns
  int block_k = 1, block_c = 1;               ///< filters and channels of a block
  int block_columns = 8;                      ///< of the product, that a block has
  int warps_m = 1, warps_n = 1, warps_k = 1;  ///< that share a block's rows, columns and terms
  int box_n = 1, box_p = 1, box_q = 1;        ///< of a unit: images, rows b, columns q
  int lead = 0;                               ///< columns of x before a unit's, for whole vectors
  int pitch = 8;                              ///< elements from row to row of a stage
  int dy_pitch = 8;               ///< the same of dy; in the products of few_weights/ as of x
  int x_rows = 1, dy_rows = 1;    ///< of a plane of x, of a filter and image of dy
  int x_plane = 8, dy_plane = 8;  ///< elements of them
  int x_elements = 8;             ///< of a copy of all planes of x
  int dy_filter = 8;              ///< from filter to filter
  int image_steps = 1;            ///< of an image
  std::int64_t blocks_k = 1, blocks_c = 1, blocks_l = 1;  ///< that cut dw, in each group
  std::int64_t bands = 1, columns = 1;                    ///< units of an image
  std::int64_t units = 0, parts = 1;
  std::size_t shared_bytes = 0;
  double clocks = 0;  ///< of a multiprocessor, for all

  PLUMB_HOST_DEVICE int warps() const { return warps_m * warps_n * warps_k; }
  PLUMB_HOST_DEVICE int threads() const { return 32 * warps(); }
  PLUMB_HOST_DEVICE int steps() const { return box_n * image_steps; }
  PLUMB_HOST_DEVICE int m() const { return 16 * tile.m * warps_m; }
  PLUMB_HOST_DEVICE int n() const { return 8 * tile.n * warps_n; }
  PLUMB_HOST_DEVICE int planes(const WeightsSizes& sizes) const {
    return sizes.d.taps * row_planes * sizes.planes;  // of an image and channel
  }
  PLUMB_HOST_DEVICE int x_image(const WeightsSizes& sizes) const {
    return block_c * planes(sizes) * x_plane;
  }
  PLUMB_HOST_DEVICE int dy_elements() const { return block_k * dy_filter; }
  std::int64_t blocks_of_part(std::int64_t groups) const {
    return groups * blocks_k * blocks_c * blocks_l;
  }
};

/// A column of the product: a channel of the block under a tap.
struct FewWeightsColumn {
  int c, t, i, s;

  PLUMB_HOST_DEVICE FewWeightsColumn(const WeightsSizes& sizes, const FewWeightsCut& cut,
                                     int number) {
    int rest = number / sizes.w.taps;
    s = number - rest * sizes.w.taps;
    i = rest % cut.inner, rest /= cut.inner;
    t = rest % sizes.d.taps, c = rest / sizes.d.taps;
  }
  /// In elements of a stage's input, of two copies: a pair that begins at an odd element lies in
  /// the second, so that all pairs are whole words.
  PLUMB_HOST_DEVICE int offset(const WeightsSizes& sizes, const FewWeightsCut& cut) const {
    const int v = i * sizes.h.dilation, w = s * sizes.w.dilation;
    const int row = v / sizes.h.stride, row_plane = v - row * sizes.h.stride;
    const int column = w / sizes.w.stride, plane = w - column * sizes.w.stride;
    const int planes = ((c * sizes.d.taps + t) * cut.row_planes + row_plane) * sizes.planes + plane;
    const int shift = row * cut.pitch + cut.lead + column;
    return planes * cut.x_plane + (shift & ~1) + (shift & 1) * cut.x_elements;
  }
};

/// What is to be taken in place of what the model prefers, where it is not 0.
struct FewWeightsChoice {
  const FewWeightsTile* tile = nullptr;
  int outer = 0;
  int max_box = 0;  ///< rows of a unit
};

/// Nothing where no unit fits shared memory.
std::optional<FewWeightsCut> cut_few_weights(const WeightsSizes& sizes, const FewWeightsClass& of,
                                             FewWeightsChoice choice = {});
/// The most additions on the way of a product to its sum.
double few_weights_chain(const WeightsSizes& sizes, const FewWeightsCut& cut,
                         const FewWeightsClass& of);

struct FewWeightsPlan {
  FewWeightsClass of;
  WeightsSizes sizes;
  FewWeightsCut cut;
  WeightsStrides strides;

  std::size_t sums() const {
    return static_cast<std::size_t>(cut.parts) * static_cast<std::size_t>(sizes.weights());
  }
};
std::optional<FewWeightsPlan> plan_few_weights(const ConvProblem& problem,
                                               const FewWeightsClass& of,
                                               FewWeightsChoice choice = {});

/// Mistakes that tests plant: the last warps' sums are lost, columns are off by a tap, high halves
/// stand for low ones, copies are not waited for, a unit's second range is left out.
enum class FewWeightsFault { none, lost_warp, wrong_tap, no_low, stale_stage, lost_range };

void launch_few_weights_f32(const FewWeightsPlan& plan, const WeightsCall& call, void* stream);
void launch_few_weights_half(const FewWeightsPlan& plan, const WeightsCall& call, void* stream);

}  // namespace plumb::cuda
