// What the kernel multiplies, and how filters are packed for it: host code alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_kernels/primitives/host_device.hpp"
#include "cuda_kernels/primitives/swizzle.hpp"
#include "cuda_kernels/wide/wide_fold.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// An arithmetic: what tensors are stored as, and what of them is multiplied.
struct WideClass {
  DType stored;
  DType operand;
  int products;  ///< for each term: 1, or 3 of high and low halves (wide_halves.cuh)

  constexpr int operand_bytes() const {
    return operand == DType::f64 ? 8 : operand == DType::f32 ? 4 : 2;
  }
  constexpr int step_channels() const { return swizzle_row_bytes / operand_bytes(); }
  /// Elements of 16 bytes, which channels of a pixel are filled up to.
  constexpr int unit() const { return 16 / operand_bytes(); }
  /// Whether tensors of f32 become fp16, scaled by powers of two.
  PLUMB_HOST_DEVICE constexpr bool scales() const { return stored != operand; }
  /// Halves of fp16 lie in memory, and each product has steps of its own. Those of TF32 are made in
  /// registers, and a step forms all three.
  PLUMB_HOST_DEVICE constexpr bool splits_in_memory() const { return products == 3 && scales(); }
  PLUMB_HOST_DEVICE constexpr bool splits_in_registers() const {
    return products == 3 && !scales();
  }
  /// Of x in memory.
  /// Whether the copy engine may store outputs. Halves in memory are read three times, which is
  /// what takes their time, and their scales want more registers than there are.
  PLUMB_HOST_DEVICE constexpr bool stores_boxes() const { return !splits_in_memory(); }
  PLUMB_HOST_DEVICE constexpr int planes() const { return splits_in_memory() ? 2 : 1; }
  /// Of packed filters in a stage.
  PLUMB_HOST_DEVICE constexpr int filter_planes() const { return splits_in_registers() ? 2 : 1; }
  /// How often the steps of one product are gone through.
  PLUMB_HOST_DEVICE constexpr int rounds() const { return splits_in_memory() ? 3 : 1; }
  friend constexpr bool operator==(const WideClass&, const WideClass&) = default;
};

inline constexpr WideClass wide_class_fp16{DType::f16, DType::f16, 1},
    wide_class_bf16{DType::bf16, DType::bf16, 1}, wide_class_tf32{DType::f32, DType::f32, 1},
    wide_class_fp16x3{DType::f32, DType::f16, 3}, wide_class_tf32x3{DType::f32, DType::f32, 3},
    wide_class_fp64{DType::f64, DType::f64, 1};  ///< of wide_mma/ alone

/// The channel of a step whose weights are at a place of a filter's row, where pixels are split in
/// registers. A slice of eight places is what an instruction multiplies; lanes that have its terms
/// t and t + 4 read the channels of all slices from two units of 16 bytes. They are such that lanes
/// meet no bank twice: reading 8 bytes of neighbouring pixel rows under the swizzle, or 4 bytes of
/// planes, whose rows are channels.
PLUMB_HOST_DEVICE constexpr int wide_split_channel(int place) {
  const int slice = place / 8, behind = place / 4 % 2, term = place % 4;
  const int unit = (2 * term + term / 2) ^ behind;
  return 4 * unit + (slice ^ 2 * (term % 2));
}

/// Groups as the product has them. Neighbouring groups of few channels are joined to one, whose
/// filters have zeros for the channels of the others, so that a step's 128 bytes are not one
/// group's few channels. Of the product: folded taps are channels.
struct WideGroups {
  int count = 1;                          ///< of joined groups
  int own_channels = 1, own_filters = 1;  ///< C/G of the product, K/G
  int channels = 1, filters = 1;          ///< of a joined group

  WideGroups() = default;
  WideGroups(const ConvProblem& problem, const WideClass& of);
  PLUMB_HOST_DEVICE int joined() const { return channels / own_channels; }
};

/// The layout of packed filters: for each step, which is a block of channels under a tap with the
/// blocks fastest and then s, r, t, a swizzled row of 128 bytes for each filter, group after group.
/// Rows of a group are filled up with filters of zeros to whole swizzle atoms, blocks with channels
/// of zeros. A row's channels are in their order, or in that of wide_split_channel(). Where
/// operands are split there follow the low halves in the same layout, the filters as they were (K,
/// taps, C/G) and the exponent of the power of two that each was scaled by. Taps and channels are
/// those of the product (wide_fold.hpp).
struct WideFilters {
  WideClass of = wide_class_fp16;
  WideFold fold;
  WideGroups groups;
  int taps[3] = {1, 1, 1};  ///< s, r, t
  int channel_blocks = 0;   ///< of a group, under each tap
  int rows = 0;             ///< of a group: its filters and what fills them up

  WideFilters() = default;
  WideFilters(const ConvProblem& problem, const WideClass& of, int folded_axes = 0);
  PLUMB_HOST_DEVICE int all_taps() const { return taps[0] * taps[1] * taps[2]; }
  /// Of one product.
  PLUMB_HOST_DEVICE int steps() const { return all_taps() * channel_blocks; }
  PLUMB_HOST_DEVICE int all_rows() const { return rows * groups.count; }
  PLUMB_HOST_DEVICE std::int64_t step_bytes() const {
    return std::int64_t{all_rows()} * swizzle_row_bytes;
  }
  PLUMB_HOST_DEVICE std::int64_t plane_bytes() const { return steps() * step_bytes(); }
  PLUMB_HOST_DEVICE int filters() const { return groups.filters * groups.count; }
  /// Terms of an output.
  PLUMB_HOST_DEVICE int terms() const { return all_taps() * groups.own_channels; }
  // Where the parts of split filters begin.
  PLUMB_HOST_DEVICE std::int64_t dense_at() const { return 2 * plane_bytes(); }
  PLUMB_HOST_DEVICE std::int64_t scales_at() const {
    return dense_at() + std::int64_t{filters()} * terms() * 4;
  }
  std::size_t bytes() const;
  /// Returns where the element of a row begins that is at place `c` of its step, channel `c` but
  /// where pixels are split in registers.
  std::int64_t at(int step, int row, int c) const {
    constexpr int of_atom = swizzle_rows - 1;
    return step * step_bytes() + std::int64_t{row & ~of_atom} * swizzle_row_bytes +
           swizzle_128((row & of_atom) * swizzle_row_bytes + of.operand_bytes() * c);
  }

 private:
  WideFilters(const ConvProblem& product, const WideClass& of, const WideFold& fold);
};

}  // namespace plumb::cuda
