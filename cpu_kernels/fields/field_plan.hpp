// A field's filter is cut into blocks of taps, and its outputs into bands whose input fits into a
// level-2 cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/conv/field_kernels.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// A problem's sizes along all axes, whatever its tensors' rank.
struct FieldAxes {
  std::int64_t x_n, x_c, x_d, x_h, x_w;
  std::int64_t w_k, w_c, w_t, w_r, w_s;
  std::int64_t y_n, y_k, y_z, y_p, y_q;
};
FieldAxes field_axes(const ConvProblem& problem);

/// Taps (i, j), i < rows, j < columns, of channel c and plane t. They are (r + i, s + j), or, where
/// a filter's row is cut into rows of a vector's length, (r, s + i lanes + j).
struct FilterBlock {
  std::int64_t c, t, r, s, rows, columns;
  std::int64_t w;       ///< where the weights begin among those of the filter
  bool joined = false;  ///< TapColumns::joined, with the next block
};

/// Columns of taps have at most so many rows, with every instruction set.
inline constexpr std::int64_t max_tap_rows = 16;

/// The cut of a problem. A slab holds the input of a band: of each channel a ring of the planes
/// under the filter, and of one more that is loaded meanwhile.
struct FieldPlan : KernelPlan {
  std::int64_t lanes;
  /// Whether the rows of a tile are neighbouring vectors of one row of outputs: a filter of one row
  /// has no other rows to share loads with, and an image of one row has none for a tile.
  bool along_row;
  /// Whether sums have the order c, t, r, s with the bias last, which is specified for reproducible
  /// ones. Blocks then lie in this order, and their rows of x pass by one after another.
  bool ordered;
  std::vector<FilterBlock> blocks;  ///< those of as many rows one after another
  std::int64_t filter_reals;        ///< of one filter
  std::int64_t tap_columns;         ///< of all blocks

  std::int64_t columns, column_blocks;  ///< of a band; bands beside each other
  std::int64_t rows, bands;             ///< of a band; bands below each other
  std::int64_t planes;                  ///< under the filter, one less than those of the ring
  std::int64_t pitch, plane, channel;   ///< from a row of the slab, plane and channel to the next
  std::int64_t shift;  ///< of the slab, so that columns behind the padding begin a cache line
  std::size_t slab_bytes, outside_bytes, offsets_bytes, taps_bytes;

  /// How many TapColumns there may be: those of as many rows are one, but for ordered sums.
  std::int64_t tap_blocks() const {
    return ordered ? static_cast<std::int64_t>(blocks.size()) : max_tap_rows;
  }
  std::size_t slot_bytes() const { return slab_bytes + outside_bytes + offsets_bytes + taps_bytes; }
};

/// Before the packed filters stands a Real that says whether one of the weights is not finite.
inline constexpr std::size_t field_header_bytes = 64;

/// Returns the plan for tiles of `kernels`, or one of no blocks where the input of the smallest
/// band takes more than `workspace_limit_bytes`.
template <class Real>
FieldPlan plan_field(const ConvProblem& problem, const FieldKernels<Real>& kernels, bool ordered);

/// Returns the products of an image and group that take as long as all work in caches does.
template <class Real>
double field_work(const ConvProblem& problem, const FieldKernels<Real>& kernels,
                  const FieldPlan& plan);

}  // namespace plumb
