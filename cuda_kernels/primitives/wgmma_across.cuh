// Matrix products of four warps on tensor cores (wgmma.cuh), of tiles in shared memory whose rows
// are terms: each has 64 rows of A, or columns of B, side by side (PTX ISA, "MN-major").
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda_kernels/primitives/wgmma.cuh"

namespace plumb::cuda {

/// Describes swizzled tiles (swizzle.hpp) of 128-byte rows, a term each. The next 64 rows of A or
/// columns of B begin `bytes` behind the first; 16 more terms are 16 rows, a value of 128 further
/// on. It is taken from one lane, as wgmma_matrix() is.
__device__ inline WgmmaMatrix wgmma_across_matrix(const void* shared, int bytes) {
  const WgmmaMatrix behind = static_cast<WgmmaMatrix>(bytes / 16) << 16;
  return __shfl_sync(0xffffffff, wgmma_address(shared) | behind, 0);
}

/// Bytes from 16 terms of such a tile to the next 16.
inline constexpr int wgmma_across_bytes = 16 * 128;

/// Computes D += A B, or D = A B where `add` is 0, with 16 terms in fp16 or bf16 of 64 rows of A
/// and 8 `n8_tiles` columns of B. A is as wgmma_across_matrix() describes it, and so is B where it
/// `has_b_across`; otherwise B is that of wgmma_swizzled(). A tile of 64 rows is also what
/// wgmma_swizzled_matrix() describes.
template <class Operand, int n8_tiles, bool has_b_across>
__device__ inline void wgmma_across([[maybe_unused]] float (&sums)[4 * n8_tiles],
                                    [[maybe_unused]] WgmmaMatrix a_,
                                    [[maybe_unused]] WgmmaMatrix b_, [[maybe_unused]] int add) {
  static_assert(n8_tiles % 8 == 0 && n8_tiles <= 32 && sizeof(Operand) == 2);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr std::uint64_t atoms_apart = std::uint64_t{1024 / 16} << 32, swizzle = 1ull << 62;
  const std::uint64_t a = swizzle | atoms_apart | a_, b = swizzle | atoms_apart | b_;
// The numbers of asm's operands, which are part of its text, and the sums, in lists of 32.
#define PLUMB_NUMBERS_1                                                                \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22," \
  "%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define PLUMB_NUMBERS_2                                                                   \
  PLUMB_NUMBERS_1                                                                         \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52," \
  "%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define PLUMB_NUMBERS_3                                                                   \
  PLUMB_NUMBERS_2                                                                         \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84," \
  "%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define PLUMB_NUMBERS_4                                                                     \
  PLUMB_NUMBERS_3                                                                           \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113," \
  "%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define PLUMB_FOUR(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define PLUMB_32(i)                                                                            \
  PLUMB_FOUR(i), PLUMB_FOUR(i + 4), PLUMB_FOUR(i + 8), PLUMB_FOUR(i + 12), PLUMB_FOUR(i + 16), \
      PLUMB_FOUR(i + 20), PLUMB_FOUR(i + 24), PLUMB_FOUR(i + 28)
#define PLUMB_SUMS_1 PLUMB_32(0)
#define PLUMB_SUMS_2 PLUMB_SUMS_1, PLUMB_32(32)
#define PLUMB_SUMS_3 PLUMB_SUMS_2, PLUMB_32(64)
#define PLUMB_SUMS_4 PLUMB_SUMS_3, PLUMB_32(96)
#define PLUMB_WGMMA_AS(count, columns, kind, first, second, one, two)                             \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " one                                        \
               ", 0;\n"                                                                           \
               "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32" kind                         \
               " {" PLUMB_NUMBERS_##count "}, " first ", " second ", add, 1, 1, 1, " two ";\n}\n" \
               : PLUMB_SUMS_##count                                                               \
               : "l"(a), "l"(b), "r"(add), "n"(has_b_across ? 1 : 0))
#define PLUMB_WGMMA(count, columns, first, second, one, two)                 \
  if constexpr (n8_tiles == 8 * count) {                                     \
    if constexpr (std::is_same_v<Operand, __half>)                           \
      PLUMB_WGMMA_AS(count, columns, ".f16.f16", first, second, one, two);   \
    else                                                                     \
      PLUMB_WGMMA_AS(count, columns, ".bf16.bf16", first, second, one, two); \
  }
  PLUMB_WGMMA(1, "64", "%32", "%33", "%34", "%35")
  PLUMB_WGMMA(2, "128", "%64", "%65", "%66", "%67")
  PLUMB_WGMMA(3, "192", "%96", "%97", "%98", "%99")
  PLUMB_WGMMA(4, "256", "%128", "%129", "%130", "%131")
#undef PLUMB_WGMMA
#undef PLUMB_WGMMA_AS
#undef PLUMB_SUMS_1
#undef PLUMB_SUMS_2
#undef PLUMB_SUMS_3
#undef PLUMB_SUMS_4
#undef PLUMB_32
#undef PLUMB_FOUR
#undef PLUMB_NUMBERS_1
#undef PLUMB_NUMBERS_2
#undef PLUMB_NUMBERS_3
#undef PLUMB_NUMBERS_4
#endif
}

}  // namespace plumb::cuda
