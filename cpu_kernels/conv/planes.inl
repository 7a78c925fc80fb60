// The input of a band of output rows is copied into planes (planes.hpp says how they lie).
#pragma once

#include <type_traits>
#include <utility>

#include "cpu_kernels/conv/conv_block.hpp"
#include "cpu_kernels/conv/planes.hpp"
#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/primitives/vectors.inl"

namespace plumb {
namespace {

/// The row this many rows ahead is prefetched; behind an image's own lie other channels' and
/// images'.
inline constexpr std::int64_t rows_ahead = 8;

/// Writes zeros in whole vectors, beyond `count` too.
template <class Real>
inline void zero_vectors(Real* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += lanes<Real>)
    *reinterpret_cast<Vector<Real>*>(to + i) = Vector<Real>{};
}

/// Rows of a plane, each of `left` zeros, `count` elements of the image, and zeros up to `pitch`.
struct PaddedRows {
  std::int64_t rows, left, count, pitch;
};

/// Copies rows in whole vectors, `vectors` of them from the image. The next row overwrites what is
/// written beyond one.
template <class Real, int vectors>
inline void copy_rows(const Real* from, std::int64_t from_step, const PaddedRows& lie, Real* to) {
  const std::int64_t right = lie.left + lie.count;
  for (std::int64_t row = 0; row < lie.rows; ++row, from += from_step, to += lie.pitch) {
    Vector<Real> values[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      __builtin_prefetch(from + v * lanes<Real> + rows_ahead * from_step);
      values[v] = load_vector(from + v * lanes<Real>);
    }
    zero_vectors(to, lie.left);
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v)
      *reinterpret_cast<Vector<Real>*>(to + lie.left + v * lanes<Real>) = values[v];
    zero_vectors(to + right, lie.pitch - right);
  }
}

template <class Real>
inline void copy_rows(const Real* from, std::int64_t from_step, const PaddedRows& lie, Real* to) {
  switch ((lie.count + lanes<Real> - 1) / lanes<Real>) {
    case 1: return copy_rows<Real, 1>(from, from_step, lie, to);
    case 2: return copy_rows<Real, 2>(from, from_step, lie, to);
    case 3: return copy_rows<Real, 3>(from, from_step, lie, to);
    case 4: return copy_rows<Real, 4>(from, from_step, lie, to);
    case 5: return copy_rows<Real, 5>(from, from_step, lie, to);
    case 6: return copy_rows<Real, 6>(from, from_step, lie, to);
    default:
      for (std::int64_t row = 0; row < lie.rows; ++row, from += from_step, to += lie.pitch) {
        zero_vectors(to, lie.left);
        copy_vectors(from, lie.count, to + lie.left);
        zero_vectors(to + lie.left + lie.count, lie.pitch - lie.left - lie.count);
      }
  }
}

/// Copies to[i] = from[2 i] for i in [0, count), in whole vectors, which reads and writes beyond
/// `count`.
template <class Real, int... lane>
inline void copy_even(const Real* from, std::int64_t count, Real* to,
                      std::integer_sequence<int, lane...>) {
  for (std::int64_t i = 0; i < count; i += lanes<Real>, from += 2 * lanes<Real>)
    *reinterpret_cast<Vector<Real>*>(to + i) =
        __builtin_shufflevector(load_vector(from), load_vector(from + lanes<Real>), (2 * lane)...);
}

template <class Stored, class Real>
void load_planes_stored(const ConvShape& conv, const Planes& planes, const OutputRow& band,
                        Real* plane) {
  const Stored* const x = static_cast<const Stored*>(conv.x);
  const std::int64_t step = conv.stride.w * conv.x_w, row_step = conv.stride.h * conv.x_h;
  const auto zero = [](Real* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = 0;
  };
  for (std::int64_t c = 0; c < conv.group_c; ++c)
    for (std::int64_t row_plane = 0; row_plane < planes.row_planes; ++row_plane) {
      // These are the rows of the plane that lie inside the image.
      const std::int64_t h = band.p * conv.stride.h + row_plane - conv.top;
      const std::int64_t above = lesser(greater(0, ceil_quotient(-h, conv.stride.h)), planes.rows);
      const std::int64_t below =
          lesser(greater(ceil_quotient(conv.h - h, conv.stride.h), above), planes.rows);
      for (std::int64_t j = 0; j < planes.column_planes; ++j, plane += planes.plane) {
        const std::int64_t first = j * planes.column_step - conv.left;
        const std::int64_t begin =
            lesser(greater(0, ceil_quotient(-first, conv.stride.w)), planes.pitch);
        const std::int64_t end =
            lesser(greater(ceil_quotient(conv.w - first, conv.stride.w), begin), planes.pitch);
        zero(plane, above * planes.pitch);
        const std::int64_t at = band.n * conv.x_n + (band.group * conv.group_c + c) * conv.x_c +
                                (h + above * conv.stride.h) * conv.x_h +
                                (first + begin * conv.stride.w) * conv.x_w;
        Real* const inside = plane + above * planes.pitch;
        const std::int64_t rows = below - above, count = end - begin;
        // The last row lies above the first where the image is upside down.
        const std::int64_t last = at + (rows - 1) * row_step;
        const bool vectors =
            std::is_same_v<Stored, Real> && (step == 1 || step == 2) && rows > 0 && count > 0 &&
            conv.x_readable.holds(lesser(at, last),
                                  greater(at, last) + step * in_whole_vectors<Real>(count));
        if (vectors && step == 1) {
          copy_rows(reinterpret_cast<const Real*>(x) + at, row_step,
                    {.rows = rows, .left = begin, .count = count, .pitch = planes.pitch}, inside);
        } else if (vectors) {
          for (std::int64_t row = 0; row < rows; ++row) {
            Real* const to = inside + row * planes.pitch;
            zero_vectors(to, begin);
            copy_even(reinterpret_cast<const Real*>(x) + at + row * row_step, count, to + begin,
                      std::make_integer_sequence<int, lanes<Real>>{});
            zero_vectors(to + end, planes.pitch - end);
          }
        } else {
          for (std::int64_t row = 0; row < rows; ++row) {
            Real* const to = inside + row * planes.pitch;
            zero(to, begin);
            load_row(x + at + row * row_step, step, count, to + begin);
            zero(to + end, planes.pitch - end);
          }
        }
        zero(plane + below * planes.pitch, (planes.rows - below) * planes.pitch);
      }
    }
}

}  // namespace
}  // namespace plumb
