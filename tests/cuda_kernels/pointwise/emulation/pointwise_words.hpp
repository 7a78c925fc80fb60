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
