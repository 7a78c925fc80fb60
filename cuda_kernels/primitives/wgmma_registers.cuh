// Matrix products of four warps at a time in TF32, with A in registers and B a swizzled tile in
// shared memory (PTX wgmma, sm_90a): what wgmma.cuh has of each by itself.
#pragma once

#include <cstdint>

#include "cuda_kernels/primitives/wgmma.cuh"

namespace plumb::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Numbers of the sums, which come first among asm's operands, and the sums themselves.
#define PLUMB_NUMBERS_8                                               \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18" \
  ",%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define PLUMB_NUMBERS_16                                             \
  PLUMB_NUMBERS_8                                                    \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47" \
  ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define PLUMB_NUMBERS_32                                               \
  PLUMB_NUMBERS_16                                                     \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"   \
  ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"   \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109" \
  ",%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122"  \
  ",%123,%124,%125,%126,%127"
#define PLUMB_SUM(i) \
  "+f"(sums[4 * i]), "+f"(sums[4 * i + 1]), "+f"(sums[4 * i + 2]), "+f"(sums[4 * i + 3])
#define PLUMB_SUMS_8                                                                  \
  PLUMB_SUM(0), PLUMB_SUM(1), PLUMB_SUM(2), PLUMB_SUM(3), PLUMB_SUM(4), PLUMB_SUM(5), \
      PLUMB_SUM(6), PLUMB_SUM(7)
#define PLUMB_SUMS_16                                                                    \
  PLUMB_SUMS_8, PLUMB_SUM(8), PLUMB_SUM(9), PLUMB_SUM(10), PLUMB_SUM(11), PLUMB_SUM(12), \
      PLUMB_SUM(13), PLUMB_SUM(14), PLUMB_SUM(15)
#define PLUMB_SUMS_32                                                                           \
  PLUMB_SUMS_16, PLUMB_SUM(16), PLUMB_SUM(17), PLUMB_SUM(18), PLUMB_SUM(19), PLUMB_SUM(20),     \
      PLUMB_SUM(21), PLUMB_SUM(22), PLUMB_SUM(23), PLUMB_SUM(24), PLUMB_SUM(25), PLUMB_SUM(26), \
      PLUMB_SUM(27), PLUMB_SUM(28), PLUMB_SUM(29), PLUMB_SUM(30), PLUMB_SUM(31)
#define PLUMB_WGMMA(count, columns, a, b, one)                                                    \
  if constexpr (n8_tiles == count)                                                                \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " one                                        \
               ", 0;\n"                                                                           \
               "wgmma.mma_async.sync.aligned.m64n" columns                                        \
               "k8.f32.tf32.tf32 {" PLUMB_NUMBERS_##count "}, {" a "}, " b ", add, 1, 1;\n}\n"    \
               : PLUMB_SUMS_##count                                                               \
               : "r"(a_[0]), "r"(a_[1]), "r"(a_[2]), "r"(a_[3]), "l"(swizzle | atoms_apart | b_), \
                 "r"(add))
#endif

/// Computes D += A B, or D = A B where `add` is 0, with eight terms in TF32 of 64 rows of A,
/// sixteen of each warp as mma.cuh's fragments are, and of 8 `n8_tiles` columns of B, as
/// wgmma_swizzled() has them.
template <int n8_tiles>
__device__ inline void wgmma_registers([[maybe_unused]] float (&sums)[4 * n8_tiles],
                                       [[maybe_unused]] const Fragment (&a_)[4],
                                       [[maybe_unused]] WgmmaMatrix b_, [[maybe_unused]] int add) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr std::uint64_t atoms_apart = std::uint64_t{1024 / 16} << 32, swizzle = 1ull << 62;
  PLUMB_WGMMA(8, "64", "%32,%33,%34,%35", "%36", "%37");
  PLUMB_WGMMA(16, "128", "%64,%65,%66,%67", "%68", "%69");
  PLUMB_WGMMA(32, "256", "%128,%129,%130,%131", "%132", "%133");
#endif
  static_assert(n8_tiles == 8 || n8_tiles == 16 || n8_tiles == 32);
}

/// Keeps a fragment in its registers up to here: products read it while they are under way, which
/// compilers do not know.
__device__ inline void wgmma_hold(const Fragment (&a)[4]) {
#pragma unroll
  for (const Fragment& of : a) asm volatile("" ::"r"(of) : "memory");
}

#undef PLUMB_WGMMA
#undef PLUMB_SUM
#undef PLUMB_NUMBERS_8
#undef PLUMB_SUMS_8
#undef PLUMB_NUMBERS_16
#undef PLUMB_SUMS_16
#undef PLUMB_NUMBERS_32
#undef PLUMB_SUMS_32

}  // namespace plumb::cuda
