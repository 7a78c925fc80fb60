// What all work items of kokkos.conv.rows know, on a host and on a device.
#pragma once

#include <cstdint>

#include "kokkos_kernels/conv_shape.hpp"
#include "kokkos_kernels/image.hpp"
#include "kokkos_kernels/row_segments.hpp"
#include "kokkos_kernels/scalar.hpp"
#include "plumb/conv.hpp"

namespace plumb::kokkos {

inline std::int64_t pieces_of(std::int64_t extent, std::int64_t piece) {
  return (extent - 1) / piece + 1;
}

/// Whether output rows that lie below each other read the same lines.
inline bool shares_lines(const ConvProblem& problem) {
  return problem.p() > 1 && problem.stride.h == 1 && (problem.r == 1 || problem.dilation.h == 1);
}

/// The filters as they are packed: dense, as what is summed in.
inline Steps packed_steps(const ConvProblem& problem) {
  return {problem.w_extents(), dense_strides(problem.w_extents())};
}

/// What every kind of work item knows.
template <class Sum, class Stored>
struct Rows {
  using Bounds = Kokkos::LaunchBounds<>;  ///< on a device; Kokkos' own choice

  ConvShape shape;
  std::int64_t blocks, segments;  ///< of rows and of columns, in an output plane
  int block_rows;
  const Stored* x;
  const Sum* filters;
  Stored* y;
  Epilogue<Stored> epilogue;

  Rows(const ConvLaunch& call, int columns)
      : shape(call.problem),
        block_rows(shares_lines(call.problem) ? segment_rows : 1),
        x(static_cast<const Stored*>(call.x)),
        filters(static_cast<const Sum*>(call.filters)),
        y(static_cast<Stored*>(call.y)),
        epilogue(call) {
    shape.w_step = packed_steps(call.problem);
    blocks = pieces_of(shape.p, block_rows);
    segments = pieces_of(shape.q, columns);
  }

  std::int64_t items() const { return shape.n * shape.k * shape.z * blocks * segments; }

  /// Which rows of which plane, and which segment, an item is.
  struct Item {
    std::int64_t n, k, z, p, segment;
    int rows;
  };
  KOKKOS_FUNCTION Item item_of(std::int64_t item) const {
    const Place at = place_of(item, shape.k, shape.z, blocks, segments);
    const std::int64_t p = at.h * block_rows, rest = shape.p - p;
    return {at.n, at.c, at.d, p, at.w, rest < block_rows ? static_cast<int>(rest) : block_rows};
  }

  /// Calls `add(line, taps, first, last)` for each line of the input under the item's rows: the
  /// rows from `first` to `last` have it under their taps, `taps` being those of row `first`.
  template <class F>
  KOKKOS_FUNCTION void for_each_line(const Item& item, const F& add) const {
    const std::int64_t first_d = shape.planes.first(item.z), first_h = shape.rows.first(item.p);
    const Taps planes = shape.planes.taken(first_d);
    const std::int64_t filter_rows = shape.rows.taps, lines = filter_rows + item.rows - 1;
    const Stored* image =
        x + item.n * shape.x_step.n + item.k / shape.group_k * shape.group_c * shape.x_step.c;
    for (std::int64_t c = 0; c < shape.group_c; ++c)
      for (std::int64_t t = planes.begin; t < planes.end; ++t) {
        const Stored* plane =
            image + c * shape.x_step.c + shape.planes.source(first_d, t) * shape.x_step.d;
        const Sum* plane_taps = filters + shape.w_step.offset(item.k, c, t, 0, 0);
        for (std::int64_t line = 0; line < lines; ++line) {
          const std::int64_t h = shape.rows.source(first_h, line);
          if (h < 0) continue;
          const int first = line < filter_rows ? 0 : static_cast<int>(line - filter_rows + 1);
          const int last = line < item.rows ? static_cast<int>(line) : item.rows - 1;
          add(plane + h * shape.x_step.h, plane_taps + (line - first) * shape.w_step.h, first,
              last);
        }
      }
  }

  /// In the padding a filter meets zeros, and 0 * Inf is NaN: such sums are taken again without,
  /// which keeps a NaN that came from the data.
  KOKKOS_FUNCTION Sum without_padding(Sum sum, const Item& item, int row, std::int64_t q) const {
    if (!shape.padded || sum == sum) return sum;
    return direct_sum<Sum>(shape, x, filters, Place{item.n, item.k, item.z, item.p + row, q});
  }
  KOKKOS_FUNCTION Stored* outputs(const Item& item, int row) const {
    return y + shape.y_step.offset(item.n, item.k, item.z, item.p + row, 0);
  }
};

}  // namespace plumb::kokkos
