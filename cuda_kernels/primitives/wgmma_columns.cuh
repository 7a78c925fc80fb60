// wgmma of swizzled tiles, as wgmma.cuh's wgmma_swizzled() along rows, for some numbers of columns
// that are no multiples of 64 too.
#pragma once

#include "cuda_kernels/primitives/wgmma.cuh"

namespace plumb::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Numbers of asm's operands are part of its text: ten of them, and the sums that they mean.
#define PLUMB_TEN(t) \
  "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9"
#define PLUMB_HUNDRED                                                                \
  PLUMB_TEN()                                                                        \
  "," PLUMB_TEN(1) "," PLUMB_TEN(2) "," PLUMB_TEN(3) "," PLUMB_TEN(4) "," PLUMB_TEN( \
      5) "," PLUMB_TEN(6) "," PLUMB_TEN(7) "," PLUMB_TEN(8) "," PLUMB_TEN(9)
#define PLUMB_NUMBERS_26 PLUMB_HUNDRED ",%100,%101,%102,%103"
#define PLUMB_NUMBERS_27 PLUMB_NUMBERS_26 ",%104,%105,%106,%107"
#define PLUMB_NUMBERS_29 PLUMB_NUMBERS_27 ",%108,%109,%110,%111,%112,%113,%114,%115"
#define PLUMB_NUMBERS_31 PLUMB_NUMBERS_29 ",%116,%117,%118,%119,%120,%121,%122,%123"
#define PLUMB_FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define PLUMB_TWENTY(i) \
  PLUMB_FOUR(i), PLUMB_FOUR(i + 4), PLUMB_FOUR(i + 8), PLUMB_FOUR(i + 12), PLUMB_FOUR(i + 16)
#define PLUMB_SUMS_26                                                                      \
  PLUMB_TWENTY(0), PLUMB_TWENTY(20), PLUMB_TWENTY(40), PLUMB_TWENTY(60), PLUMB_TWENTY(80), \
      PLUMB_FOUR(100)
#define PLUMB_SUMS_27 PLUMB_SUMS_26, PLUMB_FOUR(104)
#define PLUMB_SUMS_29 PLUMB_SUMS_27, PLUMB_FOUR(108), PLUMB_FOUR(112)
#define PLUMB_SUMS_31 PLUMB_SUMS_29, PLUMB_FOUR(116), PLUMB_FOUR(120)
#define PLUMB_WGMMA_COLUMNS_AS(count, columns, kind, last, a, b, one)                      \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " one                                 \
               ", 0;\n"                                                                    \
               "wgmma.mma_async.sync.aligned.m64n" columns kind " {" PLUMB_NUMBERS_##count \
               "}, " a ", " b ", add, 1, 1" last ";\n}\n"                                  \
               : PLUMB_SUMS_##count                                                        \
               : "l"(swizzled | a_), "l"(swizzled | b_), "r"(add))
#define PLUMB_WGMMA_COLUMNS(count, columns, a, b, one)                                  \
  if constexpr (n8_tiles == count) {                                                    \
    if constexpr (std::is_same_v<Operand, float>)                                       \
      PLUMB_WGMMA_COLUMNS_AS(count, columns, "k8.f32.tf32.tf32", "", a, b, one);        \
    else if constexpr (std::is_same_v<Operand, __half>)                                 \
      PLUMB_WGMMA_COLUMNS_AS(count, columns, "k16.f32.f16.f16", ", 0, 0", a, b, one);   \
    else                                                                                \
      PLUMB_WGMMA_COLUMNS_AS(count, columns, "k16.f32.bf16.bf16", ", 0, 0", a, b, one); \
  }
#endif

/// Computes D += A B, or D = A B where `add` is 0, with 32 bytes of terms of 64 rows of A and of 8
/// `n8_tiles` columns of B, both swizzled tiles in shared memory whose terms lie along rows, or
/// those of B across. The tensor cores swizzle by the bits of an address: a tile may begin at any
/// row of an atom.
template <class Operand, int n8_tiles, WgmmaTerms of_b = WgmmaTerms::along>
__device__ inline void wgmma_columns([[maybe_unused]] float (&d)[4 * n8_tiles],
                                     [[maybe_unused]] WgmmaMatrix a_,
                                     [[maybe_unused]] WgmmaMatrix b_, [[maybe_unused]] int add) {
  static_assert(n8_tiles % 8 == 0 || of_b == WgmmaTerms::along);
  static_assert(n8_tiles % 8 == 0 || n8_tiles == 26 || n8_tiles == 27 || n8_tiles == 29 ||
                n8_tiles == 31);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr std::uint64_t swizzled = 1ull << 62 | std::uint64_t{1024 / 16} << 32;
  PLUMB_WGMMA_COLUMNS(26, "208", "%104", "%105", "%106")
  PLUMB_WGMMA_COLUMNS(27, "216", "%108", "%109", "%110")
  PLUMB_WGMMA_COLUMNS(29, "232", "%116", "%117", "%118")
  PLUMB_WGMMA_COLUMNS(31, "248", "%124", "%125", "%126")
  if constexpr (n8_tiles % 8 == 0)
    wgmma_swizzled<Operand, n8_tiles, WgmmaTerms::along, of_b>(d, a_, b_, add);
#endif
}

#undef PLUMB_TEN
#undef PLUMB_HUNDRED
#undef PLUMB_NUMBERS_26
#undef PLUMB_NUMBERS_27
#undef PLUMB_NUMBERS_29
#undef PLUMB_NUMBERS_31
#undef PLUMB_FOUR
#undef PLUMB_TWENTY
#undef PLUMB_SUMS_26
#undef PLUMB_SUMS_27
#undef PLUMB_SUMS_29
#undef PLUMB_SUMS_31
#undef PLUMB_WGMMA_COLUMNS
#undef PLUMB_WGMMA_COLUMNS_AS

}  // namespace plumb::cuda
