// wgmma of matrices that lie in octets, without swizzling (PTX ISA, "MN-major"): eight rows of A or
// columns of B of a term are 16 bytes side by side, those of eight terms 128 bytes one behind the
// other, and both the next eight terms and the next octet lie as far on as the descriptor says, in
// multiples of 16 bytes. Octets may overlap.
#pragma once

#include "cuda_kernels/primitives/wgmma.cuh"

namespace plumb::cuda {

/// Describes octets from `address`, a wgmma_address(), on; distances are in units of 16 bytes too.
__device__ inline std::uint64_t wgmma_octets_descriptor(WgmmaMatrix address, int eight_terms,
                                                        int octet) {
  return static_cast<std::uint64_t>(octet) << 32 |
         (address | static_cast<WgmmaMatrix>(eight_terms) << 16);
}

/// Computes D += A B in fp16: 16 terms of 8 octets of A and of `octets` of B, of both as
/// wgmma_octets_descriptor() describes them.
template <int octets>
__device__ inline void wgmma_octets([[maybe_unused]] float (&d)[4 * octets],
                                    [[maybe_unused]] std::uint64_t a,
                                    [[maybe_unused]] std::uint64_t b) {
  static_assert(octets >= 1 && octets <= 8);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Numbers of asm's operands are part of its text; longer lists begin with shorter ones.
#define PLUMB_NUMBERS_1 "%0,%1,%2,%3"
#define PLUMB_NUMBERS_2 PLUMB_NUMBERS_1 ",%4,%5,%6,%7"
#define PLUMB_NUMBERS_3 PLUMB_NUMBERS_2 ",%8,%9,%10,%11"
#define PLUMB_NUMBERS_4 PLUMB_NUMBERS_3 ",%12,%13,%14,%15"
#define PLUMB_NUMBERS_5 PLUMB_NUMBERS_4 ",%16,%17,%18,%19"
#define PLUMB_NUMBERS_6 PLUMB_NUMBERS_5 ",%20,%21,%22,%23"
#define PLUMB_NUMBERS_7 PLUMB_NUMBERS_6 ",%24,%25,%26,%27"
#define PLUMB_NUMBERS_8 PLUMB_NUMBERS_7 ",%28,%29,%30,%31"
#define PLUMB_SUM(i) "+f"(d[4 * i]), "+f"(d[4 * i + 1]), "+f"(d[4 * i + 2]), "+f"(d[4 * i + 3])
#define PLUMB_SUMS_1 PLUMB_SUM(0)
#define PLUMB_SUMS_2 PLUMB_SUMS_1, PLUMB_SUM(1)
#define PLUMB_SUMS_3 PLUMB_SUMS_2, PLUMB_SUM(2)
#define PLUMB_SUMS_4 PLUMB_SUMS_3, PLUMB_SUM(3)
#define PLUMB_SUMS_5 PLUMB_SUMS_4, PLUMB_SUM(4)
#define PLUMB_SUMS_6 PLUMB_SUMS_5, PLUMB_SUM(5)
#define PLUMB_SUMS_7 PLUMB_SUMS_6, PLUMB_SUM(6)
#define PLUMB_SUMS_8 PLUMB_SUMS_7, PLUMB_SUM(7)
// The operands behind the sums are both descriptors; terms of both lie across.
#define PLUMB_WGMMA_OCTETS(count, columns, of_a, of_b)                                             \
  if constexpr (octets == count)                                                                   \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" columns                                         \
               "k16.f32.f16.f16 {" PLUMB_NUMBERS_##count "}, " of_a ", " of_b ", 1, 1, 1, 1, 1;\n" \
               : PLUMB_SUMS_##count                                                                \
               : "l"(a), "l"(b))
  PLUMB_WGMMA_OCTETS(1, "8", "%4", "%5");
  PLUMB_WGMMA_OCTETS(2, "16", "%8", "%9");
  PLUMB_WGMMA_OCTETS(3, "24", "%12", "%13");
  PLUMB_WGMMA_OCTETS(4, "32", "%16", "%17");
  PLUMB_WGMMA_OCTETS(5, "40", "%20", "%21");
  PLUMB_WGMMA_OCTETS(6, "48", "%24", "%25");
  PLUMB_WGMMA_OCTETS(7, "56", "%28", "%29");
  PLUMB_WGMMA_OCTETS(8, "64", "%32", "%33");
#undef PLUMB_WGMMA_OCTETS
#undef PLUMB_SUM
#undef PLUMB_NUMBERS_1
#undef PLUMB_NUMBERS_2
#undef PLUMB_NUMBERS_3
#undef PLUMB_NUMBERS_4
#undef PLUMB_NUMBERS_5
#undef PLUMB_NUMBERS_6
#undef PLUMB_NUMBERS_7
#undef PLUMB_NUMBERS_8
#undef PLUMB_SUMS_1
#undef PLUMB_SUMS_2
#undef PLUMB_SUMS_3
#undef PLUMB_SUMS_4
#undef PLUMB_SUMS_5
#undef PLUMB_SUMS_6
#undef PLUMB_SUMS_7
#undef PLUMB_SUMS_8
#endif
}

}  // namespace plumb::cuda
