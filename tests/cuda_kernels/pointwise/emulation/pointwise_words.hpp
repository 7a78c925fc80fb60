// CUDA's words for the host's compiler, as the pointwise kernel speaks them. It stands before
// everything else in its sources.
#pragma once

#include "cuda_kernels/wide/emulation/wide_words.hpp"

/// Four of the bytes of a and, above them, of b, each by a digit of `which`.
inline std::uint32_t __byte_perm(std::uint32_t a, std::uint32_t b, unsigned which) {
  const std::uint64_t both = std::uint64_t{b} << 32 | a;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<std::uint32_t>(both >> 8 * (which >> 4 * i & 7) & 0xff) << 8 * i;
  return result;
}

/// The larger of two halves each, NaN where one is.
template <class Pair>
Pair __hmax2_nan(Pair a, Pair b) {
  const auto larger = [](auto x, auto y) {
    const float of_x = static_cast<float>(x.of), of_y = static_cast<float>(y.of);
    return of_x > of_y || of_x != of_x ? x : y;
  };
  return {larger(a.x, b.x), larger(a.y, b.y)};
}
