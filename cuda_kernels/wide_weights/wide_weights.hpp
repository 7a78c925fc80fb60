// How backward weights of many channels is cut for the kernel in wide_weights_kernel.cuh: host code
// alone.
//
// The product's rows are filters, its columns the channels under the filter's taps, its terms
// output pixels, numbered through N (Z) P Q. A step of the reduction is 64 of them: blocks of 64
// filters of dy and of 64 channels of x under one tap, each pixel a row of 128 bytes, which the
// copy engine writes swizzled and wgmma reads across. Tiles, stages, repacked tensors and folded
// axes are those of wide/.
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

inline constexpr int wide_weights_pixels = 64;  ///< of a step
inline constexpr int wide_weights_block = 64;   ///< filters or channels that a copy has
inline constexpr int wide_weights_block_bytes = wide_weights_pixels * swizzle_row_bytes;
/// Sums of f32 move from the tensor cores' registers to others after so many steps: the tensor
/// cores cut what they add, always towards zero.
inline constexpr int wide_weights_run = 32;

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
  int blocks = 1;  ///< of 64 channels of a group
  // In workspace: repacked images, largest magnitudes of their parts, the exponent of their scale.
  std::size_t packed = 0, magnitudes = 0, exponent = 0;
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

/// What is to be taken in place of what the model prefers, where it is not negative and not 0.
struct WideWeightsChoice {
  int shape = -1, splits = 0;
  int folded_axes = -1;  ///< a WideFold's
};

struct WideWeightsPlan {
  WideClass of;
  WideWeightsOperand x, dy;
  WeightsSizes sizes;  ///< for sums that are made anew
  WeightsStrides strides;
  WideWeightsCut cut;
  std::size_t sums = 0, workspace_bytes = 0;  ///< where the sums of splits begin, and all end

  /// Plans a problem that is supported.
  WideWeightsPlan(const ConvProblem& problem, const WideClass& of, WideWeightsChoice choice = {});

  const WideGroups& groups() const { return x.channels.groups; }
  int taps() const { return x.channels.all_taps(); }  ///< of the product
  int column_blocks() const { return taps() * x.blocks; }
  int rows() const { return dy.blocks * wide_weights_block; }  ///< of a group
  int columns() const { return column_blocks() * wide_weights_block; }
  std::size_t sums_bytes() const;
  double seconds(const DeviceInfo& device) const;  ///< predicted
};

/// Returns the forward convolution by filters of one tap that reads dy.
ConvProblem image_of_gradients(const ConvProblem& problem);

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
