// Plumb's basic types are element types, arithmetic classes, and the extents and strides of
// tensors.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "plumb/export.h"

namespace plumb {

/// The types that are stored in memory: IEEE binary32, binary64, binary16, and bfloat16.
enum class DType : std::uint8_t { f32, f64, f16, bf16 };

/// The least accurate arithmetic that the caller allows. A more accurate kernel may always be
/// chosen. `fp32` promises the error of a chain of fp32 FMAs, however the kernel gets there;
/// `tf32`, `bf16` and `fp16` allow operands to be rounded to that type, with fp32 accumulation
/// (`fp16` allows fp16 accumulation too, where the algorithm is forced by name). Tensors stored
/// as f64 are always computed in fp64.
enum class Math : std::uint8_t { fp64, fp32, tf32, bf16, fp16 };

/// Names for two common stride orders of an N C H W tensor, and of those with a depth or without a
/// height: channels before or behind the image. Both are just strides.
enum class Layout : std::uint8_t { nchw, nhwc };

/// What is applied to each output after the bias.
enum class Activation : std::uint8_t { none, relu };

/// What is done to the activated outputs before they are stored. `max_2x2`: the maximum of two rows
/// by two columns, in steps of two; an odd last row or column is dropped. NaN stays NaN.
enum class Pool : std::uint8_t { none, max_2x2 };

PLUMB_API std::string_view to_string(DType);                     ///< "f32"
PLUMB_API std::string_view to_string(Math);                      ///< "tf32"
PLUMB_API std::string_view to_string(Layout);                    ///< "nchw"
PLUMB_API std::string_view to_string(Activation);                ///< "relu"
PLUMB_API std::string_view to_string(Pool);                      ///< "max_2x2"
PLUMB_API std::optional<DType> parse_dtype(std::string_view);    ///< of such a name, or nothing
PLUMB_API std::optional<Math> parse_math(std::string_view);      ///< of such a name, or nothing
PLUMB_API std::optional<Layout> parse_layout(std::string_view);  ///< of such a name, or nothing

/// Returns the bytes of one element.
constexpr std::size_t size_in_bytes(DType dtype) {
  switch (dtype) {
    case DType::f64: return 8;
    case DType::f32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
  }
  return 0;
}

/// IEEE binary16 as stored; conversions round to nearest, ties to even, and keep NaN and Inf.
struct Half {
  std::uint16_t bits = 0;  ///< sign, 5 bits of exponent, 10 of fraction

  constexpr Half() = default;
  /// Rounds `value`.
  constexpr explicit Half(float value) {
    const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (word >> 16) & 0x8000u;
    const std::uint32_t magnitude = word & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {  // NaN: keep it quiet, keep the top of its payload
      bits = static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    } else if (magnitude >= 0x477ff000u) {  // rounds to 2^16 or more
      bits = static_cast<std::uint16_t>(sign | 0x7c00u);
    } else if (magnitude >= 0x38800000u) {  // normal
      const std::uint32_t rebased = magnitude - 0x38000000u;
      bits = static_cast<std::uint16_t>(sign | ((rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13));
    } else if (magnitude >= 0x33000000u) {  // subnormal: 2^-25 (a tie, to zero) and above
      const int shift = 126 - static_cast<int>(magnitude >> 23);
      const std::uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
      const std::uint32_t kept = mantissa >> shift;
      const std::uint32_t rest = mantissa & ((1u << shift) - 1u);
      const std::uint32_t half = 1u << (shift - 1);
      const std::uint32_t up = (rest > half || (rest == half && (kept & 1u))) ? 1u : 0u;
      bits = static_cast<std::uint16_t>(sign | (kept + up));
    } else {
      bits = static_cast<std::uint16_t>(sign);
    }
  }
  /// Returns the same value: a float holds each.
  constexpr explicit operator float() const {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fu;
    const std::uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
    if (exponent != 0)
      return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
    const float subnormal = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -subnormal : subnormal;
  }
};

/// bfloat16 as stored; conversions round to nearest, ties to even, and keep NaN and Inf.
struct BFloat16 {
  std::uint16_t bits = 0;  ///< the upper half of a binary32

  constexpr BFloat16() = default;
  /// Rounds `value`.
  constexpr explicit BFloat16(float value) {
    const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffu) > 0x7f800000u)
      bits = static_cast<std::uint16_t>((word >> 16) | 0x40u);
    else
      bits = static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  /// Returns the same value: a float holds each.
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// A short list of sizes: the extents of a tensor, or its strides counted in elements.
class PLUMB_API Dims {
 public:
  static constexpr int max_rank = 6;  ///< the most that are held

  constexpr Dims() = default;
  /// Holds at most `max_rank` values; more are an Error (invalid_argument).
  Dims(std::initializer_list<std::int64_t> values) : Dims(values.begin(), values.size()) {}
  Dims(const std::int64_t* values, std::size_t count);  ///< holds the values of an array

  constexpr int rank() const { return rank_; }         ///< how many there are
  constexpr bool empty() const { return rank_ == 0; }  ///< whether there are none
  /// Returns the value of dimension i, from 0 to rank() - 1, which is not checked.
  constexpr std::int64_t operator[](int i) const { return values_[static_cast<std::size_t>(i)]; }
  /// Returns the value of dimension i, to be changed.
  constexpr std::int64_t& operator[](int i) { return values_[static_cast<std::size_t>(i)]; }
  constexpr const std::int64_t* begin() const { return values_.data(); }        ///< for loops
  constexpr const std::int64_t* end() const { return values_.data() + rank_; }  ///< for loops
  /// Says whether two are equal in rank and every value.
  friend bool operator==(const Dims& a, const Dims& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<std::int64_t, max_rank> values_{};
  int rank_ = 0;
};
using Extents = Dims;  ///< sizes, at least 0
using Strides = Dims;  ///< steps from one index to the next, in elements

/// Returns "[2, 3, 86, 86]".
PLUMB_API std::string to_string(const Dims&);

/// Returns the number of elements. Throws Error (invalid_argument) on a negative extent, and where
/// the count or its bytes (8 an element at most) would pass 2^63.
PLUMB_API std::int64_t element_count(const Extents&);

/// Returns row-major strides (the last index runs fastest). Throws Error (invalid_argument) where
/// one would pass 2^63.
PLUMB_API Strides dense_strides(const Extents&);

/// Returns the strides of a dense tensor of rank 3 to 5, extents always given as N C W, N C H W or
/// N C D H W. Throws Error as element_count() does, and for other ranks.
PLUMB_API Strides strides_for(Layout, const Extents& extents);

/// One value along each axis of the image. One number means all axes, two mean height and width,
/// three depth, height and width. Images without a depth, or without a height, have no use for that
/// axis' value.
struct Triple {
  std::int64_t d = 1;  ///< along the depth
  std::int64_t h = 1;  ///< along the height
  std::int64_t w = 1;  ///< along the width

  constexpr Triple() = default;  ///< {1, 1, 1}
  /// Sets all to the same value.
  constexpr Triple(std::int64_t all) : d(all), h(all), w(all) {}  // NOLINT: implicit on purpose
  Triple(std::floating_point auto) = delete;  ///< no fraction is dropped in silence
  /// Sets height and width; the depth's stays 1.
  constexpr Triple(std::int64_t height, std::int64_t width) : h(height), w(width) {}
  /// Sets each to its own value.
  constexpr Triple(std::int64_t depth, std::int64_t height, std::int64_t width)
      : d(depth), h(height), w(width) {}
  friend bool operator==(const Triple&, const Triple&) = default;  ///< along every axis
};
/// The name from when images had two axes.
using Pair = Triple;

/// How far an image goes on beyond its edges. One number pads every side; two pad height and width;
/// three depth, height and width, each on both sides; four are top, left, bottom and right; six
/// give each side its own. Images without a depth, or without a height, have no use for the padding
/// along it.
struct Padding {
  std::int64_t front = 0;   ///< planes before
  std::int64_t top = 0;     ///< rows above
  std::int64_t left = 0;    ///< columns before
  std::int64_t back = 0;    ///< planes behind
  std::int64_t bottom = 0;  ///< rows below
  std::int64_t right = 0;   ///< columns after

  constexpr Padding() = default;  ///< none
  /// Sets the same on every side.
  constexpr Padding(std::int64_t every_side)  // NOLINT: implicit on purpose
      : Padding(every_side, every_side, every_side) {}
  Padding(std::floating_point auto) = delete;  ///< no fraction is dropped in silence
  /// Sets `rows` above and below, and `columns` before and after.
  constexpr Padding(std::int64_t rows, std::int64_t columns) : Padding(0, rows, columns) {}
  /// Sets `planes` before and behind, `rows` above and below, and `columns` before and after.
  constexpr Padding(std::int64_t planes, std::int64_t rows, std::int64_t columns)
      : Padding(planes, rows, columns, planes, rows, columns) {}
  /// Sets each side of an image without a depth by itself.
  constexpr Padding(std::int64_t above, std::int64_t before, std::int64_t below, std::int64_t after)
      : Padding(0, above, before, 0, below, after) {}
  /// Sets each side by itself.
  constexpr Padding(std::int64_t front_, std::int64_t top_, std::int64_t left_, std::int64_t back_,
                    std::int64_t bottom_, std::int64_t right_)
      : front(front_), top(top_), left(left_), back(back_), bottom(bottom_), right(right_) {}
  friend bool operator==(const Padding&, const Padding&) = default;  ///< on every side
};

/// What lies in the padding along one axis, drawn for a row a b c d:
enum class Boundary : std::uint8_t {
  zeros,      ///< 0 0 | a b c d | 0 0: taps there are left out
  periodic,   ///< c d | a b c d | a b: the image repeats (NumPy's and SciPy's wrap)
  reflect,    ///< c b | a b c d | c b: the edge is not repeated (PyTorch's reflect, SciPy's mirror)
  symmetric,  ///< b a | a b c d | d c: the edge is repeated (NumPy's symmetric, SciPy's reflect)
  clamp,      ///< a a | a b c d | d d: the edge goes on (PyTorch's replicate, SciPy's nearest)
};
PLUMB_API std::string_view to_string(Boundary);                      ///< "periodic"
PLUMB_API std::optional<Boundary> parse_boundary(std::string_view);  ///< of such a name, or nothing

/// What lies in the padding, along each axis. One value means all axes, two mean height and width.
struct Boundaries {
  Boundary d = Boundary::zeros;  ///< along the depth
  Boundary h = Boundary::zeros;  ///< along the height
  Boundary w = Boundary::zeros;  ///< along the width

  constexpr Boundaries() = default;  ///< zeros
  /// Sets the same along all axes.
  constexpr Boundaries(Boundary all) : d(all), h(all), w(all) {}  // NOLINT: implicit on purpose
  /// Sets height and width; the depth has zeros.
  constexpr Boundaries(Boundary height, Boundary width) : h(height), w(width) {}
  /// Sets each to its own.
  constexpr Boundaries(Boundary depth, Boundary height, Boundary width)
      : d(depth), h(height), w(width) {}
  friend bool operator==(const Boundaries&, const Boundaries&) = default;  ///< along every axis
};

/// Returns the index in [0, extent) of what `index`, which may lie anywhere, shows along an axis of
/// such a boundary, or -1 where that is a zero. Beyond twice the extent the pattern goes on as it
/// began. `reflect` takes an extent of at least 2 where the index lies outside.
constexpr std::int64_t boundary_index(Boundary boundary, std::int64_t index, std::int64_t extent) {
  if (index >= 0 && index < extent) return index;
  const auto within = [index](std::int64_t period) {
    const std::int64_t rest = index % period;
    return rest < 0 ? rest + period : rest;
  };
  switch (boundary) {
    case Boundary::zeros: return -1;
    case Boundary::periodic: return within(extent);
    case Boundary::reflect: {
      const std::int64_t at = within(2 * extent - 2);
      return at < extent ? at : 2 * extent - 2 - at;
    }
    case Boundary::symmetric: {
      const std::int64_t at = within(2 * extent);
      return at < extent ? at : 2 * extent - 1 - at;
    }
    case Boundary::clamp: return index < 0 ? 0 : extent - 1;
  }
  return -1;
}

}  // namespace plumb
