// How backward weights of many channels is cut for the kernel in wide_weights_kernel.cuh: host code
// alone.
//
// The product's rows are filters, its columns the channels under the filter's taps, its terms
// output pixels, numbered through N (Z) P Q. A step of the reduction is as many of them as elements
// have room in 128 bytes, 64 of fp16 and 32 of f32: blocks of so many filters of dy and of as many
// channels of x under one tap, each pixel a row of 128 bytes, which the copy engine writes
// swizzled. wgmma reads fp16 across; f32 goes through registers to mma.sync. Tiles, stages,
// repacked tensors and folded axes are those of wide/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_kernels/weights/weights.hpp"
#include "cuda_kernels/wide/wide.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// f32 in one product of fp16, scaled so that no bits of TF32 are lost.
inline constexpr WideClass wide_class_fp16_scaled{DType::f32, DType::f16, 1};

/// Pixels of a step, and filters or channels that a copy has.
constexpr int wide_weights_block(const WideClass& of) { return of.step_channels(); }
/// Whether operands go through registers to mma.sync: wgmma takes TF32 only with terms side by
/// side.
PLUMB_HOST_DEVICE constexpr bool weights_in_registers(const WideClass& of) {
  return of.stored == DType::f32 && !of.scales();
}
inline constexpr int wide_weights_warps = 8;  ///< that multiply

/// Parts of a step's pixels that warps sum by themselves. Warps that have half of the pixels have
/// twice the tile and read less of shared memory for each product, which only three products do not
/// wait for.
PLUMB_HOST_DEVICE constexpr int weights_parts(const WideClass& of) {
  return weights_in_registers(of) && of.products == 1 ? 2 : 1;
}
/// Sums of f32 move from the tensor cores' registers to others after so many pixels: the tensor
/// cores cut what they add, always towards zero. Three products of a term one after the other are
/// three terms.
PLUMB_HOST_DEVICE constexpr int wide_weights_run(const WideClass& of) {
  return of.splits_in_registers() ? 512 : 2048;
}

/// Of more splits than that so many chains are summed, which a tree adds.
inline constexpr int wide_weights_chains = 8;

/// Whether there is a kernel of a tile in this arithmetic: sums that are moved take registers
/// twice.
PLUMB_HOST_DEVICE constexpr bool wide_weights_has(const WideShape& shape, bool moves_sums) {
  return !moves_sums || shape.warpgroup_rows() * shape.warpgroup_columns() <= 128 * 64;
}
PLUMB_HOST_DEVICE constexpr bool moves_sums(const WideClass& of) { return of.stored == DType::f32; }

/// A tensor as the copy engine reads it: as it lies, or repacked.
struct WideWeightsOperand {
  ConvProblem image;     ///< a convolution that reads the tensor as its x
  WideFilters channels;  ///< its groups and folded axes; no filters are packed
  WideInput input;
  int blocks = 1;  ///< of channels of a group
  // In workspace: repacked images, largest magnitudes of their parts, their scale.
  std::size_t packed = 0, magnitudes = 0, scale = 0;
};

/// The tiles of a problem, and the parts of the pixels that blocks sum by themselves. From the
/// problem alone: it is the order of the sums.
struct WideWeightsCut {
  int shape = 0;  ///< of wide_shapes
  int steps = 0;  ///< of all pixels
  int splits = 1;
  int m_tiles = 1, n_tiles = 1;  ///< that cover a group's filters, and its channels under all taps
  double clocks = 0;             ///< of a multiprocessor, for all but what moves through memory
};

/// Blocks of columns, shared out evenly among tiles: the first ones may have one more.
struct WeightsColumns {
  int of_tile = 0, rest = 0;

  WeightsColumns(int blocks, int tiles) : of_tile(blocks / tiles), rest(blocks % tiles) {}
  /// The first block of a tile, and behind the last tile the number of all.
  PLUMB_HOST_DEVICE int first(int tile) const {
    return tile * of_tile + (tile < rest ? tile : rest);
  }
  int most() const { return of_tile + (rest > 0 ? 1 : 0); }
};

/// What is to be taken in place of what the model prefers, where it is not negative and not 0.
struct WideWeightsChoice {
  int shape = -1, splits = 0;
  int folded_axes = -1;  ///< a WideFold's
  int across = -1;       ///< 0: planes are repacked
};

struct WideWeightsPlan {
  WideClass of;
  WideWeightsOperand x, dy;
  WeightsSizes sizes;  ///< for sums that are made anew
  WeightsStrides strides;
  WideWeightsCut cut;
  /// Whether planes of x and dy are read as they lie, if both are aligned. Steps are then those of
  /// each image by itself.
  bool across = false;
  std::size_t sums = 0, workspace_bytes = 0;  ///< where the sums of splits begin, and all end

  /// Plans a problem that is supported.
  WideWeightsPlan(const ConvProblem& problem, const WideClass& of, WideWeightsChoice choice = {});

  const WideGroups& groups() const { return x.channels.groups; }
  int taps() const { return x.channels.all_taps(); }  ///< of the product
  int column_blocks() const { return taps() * x.blocks; }
  int rows() const { return dy.blocks * wide_weights_block(of); }  ///< of a group
  int columns() const { return column_blocks() * wide_weights_block(of); }
  /// Of all pixels: of planes as they lie those of whole images.
  int steps(bool reads_across) const;
  /// Whether sums may have to be made anew: zeros of the padding may have met Inf, or operands did
  /// not fit.
  bool repairs() const;
  /// Sums of each weight: of each split, those of its parts.
  int all_sums() const { return cut.splits * weights_parts(of); }
  std::size_t sums_bytes() const;
  /// Whether dw has so many neighbouring channels side by side, if it is aligned.
  bool has_vectors(int channels) const;
  /// Whether a tile's sums are those of dw, and can be stored as they are, if it is aligned.
  bool can_store_directly() const;
  double seconds(const DeviceInfo& device) const;  ///< predicted
};

/// A consumer warp's part of a tile where operands go through registers, beside others `across` the
/// columns.
struct WeightsWarpShape {
  int columns, across, rows;

  PLUMB_HOST_DEVICE constexpr WeightsWarpShape(const WideShape& shape, int parts)
      : columns(32 * parts),
        across(shape.n / columns),
        rows(shape.m * across / (wide_weights_warps / parts)) {}
};

/// Returns the forward convolution by filters of one tap that reads dy.
ConvProblem image_of_gradients(const ConvProblem& problem);
/// Returns a convolution whose pixels of y lie as those of x: only x is read.
ConvProblem with_own_outputs(const ConvProblem& image);

/// Says whether there is a cut of a problem of backward weights.
Support supports_cut(const ConvProblem& problem, const WideClass& of);
/// Says whether the kernel takes a problem in this arithmetic.
Support supports_wide_weights(const ConvProblem& problem, const WideClass& of,
                              const DeviceInfo& device);

/// The most additions on the way of a product to its sum.
double wide_weights_chain(const WideWeightsPlan& plan);
/// The same of the plan of a problem; of one that is refused, all terms.
double wide_weights_chain(const ConvProblem& problem, const WideClass& of);

/// Returns the first of a split's steps, and behind the last split the number of all.
PLUMB_HOST_DEVICE constexpr int first_pixel_step(int split, int splits, int steps) {
  return static_cast<int>(std::int64_t{steps} * split / splits);
}

struct WideWeightsCall {
  const void *x, *dy;
  void* dw;
  char* workspace;
  bool accumulate;
};

}  // namespace plumb::cuda
