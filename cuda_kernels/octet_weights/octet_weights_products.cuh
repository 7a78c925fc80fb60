// The sums of one warpgroup: tiles of 64 rows, eight octets of channels under taps, by octets of
// filters. A tile goes over a whole unit before the next one does, so that its sums alone are in
// the tensor cores' registers.
#pragma once

#include "cuda_kernels/octet_weights/octet_weights_operands.cuh"
#include "cuda_kernels/primitives/wgmma_octets.cuh"

namespace plumb::cuda::octet_weights {

/// A tile of a block: an octet of channels, and its taps.
struct Tile {
  int channel_octet;
  const OctetTaps* taps;
  bool valid;

  __device__ Tile(const Params& params, const few_weights::BlockShare& share, int of_block) {
    const int number = share.column + of_block;
    const auto [octet_of, tile] = params.tap_tiles.divide(number);
    valid = of_block < params.cut.few.block_columns && octet_of < params.cut.channel_octets;
    channel_octet = valid ? octet_of : 0, taps = params.taps + (valid ? tile : 0);
  }
};

/// Operands of a tile's products, in units of 16 bytes, and how they go on.
struct Steps {
  WgmmaMatrix x, dy;  ///< of the first step
  int x_octet;        ///< from octet to octet
  int dy_octet;
  int x_low, dy_low;      ///< from high halves to low ones
  int x_eight, dy_eight;  ///< from eight terms to the next eight of a step
};

template <int octets, int tiles, FewWeightsFault fault>
class TileSums {
 public:
  __device__ TileSums(const Params& params, const few_weights::BlockShare& share)
      : share_(share),
        // The same for all lanes, and for the compiler too.
        warpgroup_(few_weights::largest_of_warp(static_cast<int>(threadIdx.x) / 128)) {
    // Warpgroups take turns, so that they have as many.
    own_ = (params.cut.few.block_columns - warpgroup_ + octet_warpgroups - 1) / octet_warpgroups;
    if (fault == FewWeightsFault::lost_warp && warpgroup_ == octet_warpgroups - 1) --own_;
  }

  /// Adds a unit, whose operands were scaled by 2^exponent together.
  __device__ __forceinline__ void add(const Params& params, const Operands& operands,
                                      int exponent) {
#pragma unroll
    for (int i = 0; i < tiles; ++i)
      if (i < own_) add_tile(params, operands, exponent, i);
  }

  /// Writes the sums to the part.
  __device__ void write(const Params& params, float* parts) const {
    const WeightsSizes& sizes = params.sizes();
    const FewWeightsCut& cut = params.cut.few;
    const int lane = static_cast<int>(threadIdx.x) % 32,
              warp = static_cast<int>(threadIdx.x) / 32 % 4;
    float* const part = parts + share_.part * sizes.weights();
#pragma unroll
    for (int i = 0; i < tiles; ++i) {
      if (i >= own_) continue;
      const Tile tile = tile_of(params, i);
      const int channel = share_.c + octet * tile.channel_octet + lane / 4;
      if (!tile.valid || channel >= sizes.group_c) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int number = 2 * warp + half;
        const int r = tile.taps->r + (tile.taps->down ? number * sizes.h.stride : 0),
                  s = tile.taps->s + (tile.taps->down ? 0 : number * sizes.w.stride);
        if (r >= sizes.h.taps || s >= sizes.w.taps) continue;
        const std::int64_t term =
            ((std::int64_t{channel} * sizes.d.taps + tile.taps->t) * sizes.h.taps + r) *
                sizes.w.taps +
            s;
#pragma unroll
        for (int j = 0; j < 2 * octets; ++j) {
          const int k = octet * (j / 2) + lane % 4 * 2 + j % 2;
          if (k < cut.block_k && share_.k + k < sizes.group_k)
            part[(share_.group * sizes.group_k + share_.k + k) * sizes.terms() + term] =
                sums_[i][4 * (j / 2) + 2 * half + j % 2];
        }
      }
    }
  }

 private:
  using Sums = float[4 * octets];

  __device__ Tile tile_of(const Params& params, int i) const {
    return Tile(params, share_, octet_warpgroups * i + warpgroup_);
  }

  __device__ __forceinline__ Steps steps_of(const Params& params, const Operands& operands,
                                            int i) const {
    const WeightsSizes& sizes = params.sizes();
    const OctetWeightsCut& cut = params.cut;
    const Tile tile = tile_of(params, i);
    int first = tile.channel_octet * params.x_octet.value() + cut.offset(sizes, *tile.taps);
    if (fault == FewWeightsFault::wrong_tap && (tile.taps->r > 0 || tile.taps->s > 0)) --first;
    Steps steps;
    // Taken from one lane, so that compilers know them to be uniform.
    steps.x = __shfl_sync(~0u, wgmma_address(operands.x) + static_cast<WgmmaMatrix>(first), 0);
    steps.dy = __shfl_sync(~0u, wgmma_address(operands.dy), 0);
    steps.x_octet = __shfl_sync(~0u, cut.step(sizes, *tile.taps), 0);
    steps.dy_octet = params.dy_octet.value();
    steps.x_low = cut.x_high / octet, steps.dy_low = cut.dy_high / octet;
    steps.x_eight = cut.row_pairs ? cut.few.pitch : octet;
    steps.dy_eight = cut.row_pairs ? cut.few.dy_pitch : octet;
    return steps;
  }

  /// Adds products of a unit: the small ones, or the large ones; or all of them, x high by both
  /// halves of dy, which follow each other, and x low by dy high to `others`.
  enum class Products { small, large, all };
  template <Products products, int count>
  __device__ __forceinline__ static void add_steps(const Params& params, const Steps& of,
                                                   float (&sums)[count], Sums& others) {
    const OctetWeightsCut& cut = params.cut;
    const int rows = cut.row_pairs ? 2 : 1, columns = cut.row_pairs ? octet : few_weights_step;
    const int x_next = rows * cut.few.pitch - cut.row_steps * columns,
              dy_next = rows * cut.few.dy_pitch - cut.row_steps * columns;
    const int x_image = params.x_octet.value() * cut.channel_octets;
    constexpr bool no_low = fault == FewWeightsFault::no_low;
    const int x_low = no_low ? 0 : of.x_low;
    wgmma_settle(sums);
    if constexpr (products == Products::all) wgmma_settle(others);
    wgmma_begin();
#pragma unroll 1
    for (int image = 0; image < cut.few.box_n; ++image) {
      int x = of.x + image * x_image, dy = of.dy + image * cut.few.dy_plane;
      int in_row = cut.row_steps;
#pragma unroll 1
      for (int step = 0; step < cut.few.image_steps; ++step) {
        const std::uint64_t x_high = wgmma_octets_descriptor(x, of.x_eight, of.x_octet),
                            x_other = wgmma_octets_descriptor(x + x_low, of.x_eight, of.x_octet),
                            dy_high = wgmma_octets_descriptor(dy, of.dy_eight, of.dy_octet),
                            dy_low =
                                wgmma_octets_descriptor(dy + of.dy_low, of.dy_eight, of.dy_octet);
        wgmma_octets<count / 4>(sums, x_high, products == Products::small ? dy_low : dy_high);
        if constexpr (products == Products::small) wgmma_octets<octets>(sums, x_other, dy_high);
        if constexpr (products == Products::all) wgmma_octets<octets>(others, x_other, dy_high);
        x += columns, dy += columns;
        if (--in_row == 0) x += x_next, dy += dy_next, in_row = cut.row_steps;
      }
    }
    wgmma_commit();
    wgmma_end();
    wgmma_settle(sums);
    if constexpr (products == Products::all) wgmma_settle(others);
  }

  __device__ __forceinline__ void add_tile(const Params& params, const Operands& operands,
                                           int exponent, int i) {
    const Steps of = steps_of(params, operands, i);
    constexpr int count = 4 * octets;
    Sums sums = {};
    if constexpr (octet_joint(octets)) {
      float both[2 * count] = {};
      add_steps<Products::all>(params, of, both, sums);
#pragma unroll
      for (int j = 0; j < count; ++j)
        sums[j] = both[j] + (both[count + j] + sums[j]) * (1 / split_raise);
    } else {
      // The large ones go on from the small ones.
      add_steps<Products::small>(params, of, sums, sums);
#pragma unroll
      for (int j = 0; j < count; ++j) sums[j] *= 1 / split_raise;
      add_steps<Products::large>(params, of, sums, sums);
    }
#pragma unroll
    for (int j = 0; j < count; ++j) sums_[i][j] += few_weights::scaled_by(sums[j], -exponent);
  }

  const few_weights::BlockShare& share_;
  int warpgroup_, own_;
  float sums_[tiles][4 * octets] = {};
};

}  // namespace plumb::cuda::octet_weights
