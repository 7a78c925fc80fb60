// Index arithmetic is in 32 bits where every offset fits (the GPU has no 64-bit integer unit), and
// in 64 bits otherwise. Numbers that are known at launch divide without a division.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <initializer_list>

#include "plumb/types.hpp"

namespace plumb::cuda {

/// The limit lies so far below 2^31 that an index may be rounded up to a multiple of any block.
inline constexpr double index32_limit = 0x7fff0000;

/// Returns how far from the element of index zero the strides lead. A double cannot overflow here.
inline double reach(const Extents& extents, const Strides& strides) {
  double sum = 0;
  for (int i = 0; i < extents.rank(); ++i)
    if (extents[i] > 1)
      sum += static_cast<double>(extents[i] - 1) * static_cast<double>(std::abs(strides[i]));
  return sum;
}

/// Returns the number of elements, which with broadcast strides may exceed what reach() says.
inline double count(const Extents& extents) {
  double product = 1;
  for (const std::int64_t extent : extents) product *= static_cast<double>(extent);
  return product;
}

/// Calls `f` with a zero of the index type to use.
template <class F>
void with_index(bool fits_32_bits, F&& f) {
  if (fits_32_bits)
    f(std::int32_t{0});
  else
    f(std::int64_t{0});
}

/// Returns the stride of a dimension, or zero for an extent of one, whose stride has no effect and
/// may be anything.
template <class Index>
Index step(const Extents& extents, const Strides& strides, int dimension) {
  return extents[dimension] > 1 ? static_cast<Index>(strides[dimension]) : Index{0};
}

template <class Index>
struct Quotient {
  Index quotient, remainder;
};

/// Divides numbers from 0 to 2^31 - 1 by a fixed positive one with a multiplication and a shift
/// (Granlund & Montgomery 1994, "Division by invariant integers").
template <class Index>
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(std::int64_t value) : value_(static_cast<std::uint32_t>(value)) {
    while ((std::uint64_t{1} << shift_) < value_) ++shift_;
    const std::uint64_t excess = (std::uint64_t{1} << shift_) - value_;
    multiplier_ = static_cast<std::uint32_t>((excess << 32) / value_ + 1);
  }
  __host__ __device__ Index value() const { return static_cast<Index>(value_); }
  __host__ __device__ Index quotient(Index number) const {
    const std::uint32_t n = static_cast<std::uint32_t>(number);
    const std::uint32_t high = static_cast<std::uint32_t>((std::uint64_t{n} * multiplier_) >> 32);
    return static_cast<Index>((high + n) >> shift_);
  }
  __host__ __device__ Quotient<Index> divide(Index number) const {
    const Index q = quotient(number);
    return {q, number - q * value()};
  }

 private:
  std::uint32_t value_ = 1, multiplier_ = 1, shift_ = 0;
};

/// 64-bit numbers use plain division: such tensors are rare, and reading them takes longer.
template <>
class Divisor<std::int64_t> {
 public:
  Divisor() = default;
  explicit Divisor(std::int64_t value) : value_(value) {}
  __host__ __device__ std::int64_t value() const { return value_; }
  __host__ __device__ std::int64_t quotient(std::int64_t number) const { return number / value_; }
  __host__ __device__ Quotient<std::int64_t> divide(std::int64_t number) const {
    return {number / value_, number % value_};
  }

 private:
  std::int64_t value_ = 1;
};

/// The taps of a filter or window along one direction, from `begin` up to `end`.
template <class Index>
struct Taps {
  Index begin, end;
};

/// Returns which of `taps` taps fall on the image, where the first tap lies at the coordinate
/// `first`.
template <class Index>
__device__ Taps<Index> taps_inside(Index first, Index extent, Index taps,
                                   const Divisor<Index>& dilation) {
  const Index begin = first < 0 ? dilation.quotient(dilation.value() - 1 - first) : 0;
  const Index beyond = first < extent ? dilation.quotient(extent - 1 - first) + 1 : 0;
  const Index end = beyond < taps ? beyond : taps;
  return {begin < end ? begin : end, end};
}

}  // namespace plumb::cuda
