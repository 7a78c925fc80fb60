// Matrix products of four warps at a time on tensor cores (PTX wgmma, sm_90a): D += A B, with A of
// 64 rows, sixteen of each warp, in registers as mma.cuh's fragments are, and B in shared memory. D
// has eight columns times `n8_tiles`, each eight of them held as mma.cuh's D is.
//
// B's n8 tiles follow each other, 256 bytes each: two halves of its terms, and in each the eight
// columns, 16 bytes of terms that follow each other (the PTX ISA's K-major layout without
// swizzling).
//
// Products run on by themselves: between wgmma_begin() and wgmma_end() nothing may touch their
// registers, and what wrote B is ordered by order_shared_writes() and a barrier.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "cuda_kernels/primitives/mma.cuh"

namespace plumb::cuda {

/// Whether the code being compiled may use wgmma.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
inline constexpr bool warpgroup_products = true;
#else
inline constexpr bool warpgroup_products = false;
#endif

inline constexpr int wgmma_eight_bytes = 256;  ///< bytes of B for eight columns

/// The lower half of B's descriptor; the upper half never changes. Moving B by some bytes adds a
/// sixteenth of their number.
using WgmmaMatrix = std::uint32_t;

/// Returns the address of `shared`, a multiple of 16 bytes, in a descriptor's units of 16 bytes.
__device__ inline WgmmaMatrix wgmma_address(const void* shared) {
  return (static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)) & 0x3ffff) / 16;
}
/// Describes the B that begins at `shared`, a multiple of 16 bytes and the same for all lanes of a
/// warp. The value is taken from one lane so that compilers know it to be uniform and keep it in a
/// uniform register: otherwise each product has its descriptor moved to two uniform registers.
__device__ inline WgmmaMatrix wgmma_matrix(const void* shared) {
  constexpr WgmmaMatrix halves_apart = 128 / 16;
  return __shfl_sync(0xffffffff, wgmma_address(shared) | halves_apart << 16, 0);
}
__device__ inline std::uint64_t wgmma_descriptor(WgmmaMatrix matrix) {
  constexpr std::uint64_t n8_tiles_apart = wgmma_eight_bytes / 16;
  return n8_tiles_apart << 32 | matrix;
}

__device__ inline void wgmma_begin() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
/// Closes the group of products. Their registers are free after wgmma_end().
__device__ inline void wgmma_commit() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
/// Waits until no more than the last `running` groups are under way.
template <int running = 0>
__device__ inline void wgmma_end() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(running) : "memory");
#endif
}

/// Keeps the sums from moving. It is called before wgmma_begin() and after wgmma_end(), because
/// compilers do not know when products read and write their sums.
template <int count>
__device__ inline void wgmma_settle(float (&sums)[count]) {
#pragma unroll
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Numbers of asm's operands are part of its text. These macros list the numbers of the sums, which
// come first, and the sums themselves; longer lists begin with shorter ones.
#define PLUMB_NUMBERS_2 "%0,%1,%2,%3,%4,%5,%6,%7"
#define PLUMB_NUMBERS_3 PLUMB_NUMBERS_2 ",%8,%9,%10,%11"
#define PLUMB_NUMBERS_4 PLUMB_NUMBERS_3 ",%12,%13,%14,%15"
#define PLUMB_NUMBERS_6 PLUMB_NUMBERS_4 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define PLUMB_NUMBERS_8 PLUMB_NUMBERS_6 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define PLUMB_NUMBERS_10 PLUMB_NUMBERS_8 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define PLUMB_NUMBERS_12 PLUMB_NUMBERS_10 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define PLUMB_NUMBERS_14 PLUMB_NUMBERS_12 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define PLUMB_NUMBERS_16 PLUMB_NUMBERS_14 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define PLUMB_NUMBERS_20 \
  PLUMB_NUMBERS_16       \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define PLUMB_NUMBERS_24 \
  PLUMB_NUMBERS_20       \
  ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define PLUMB_NUMBERS_28                                                    \
  PLUMB_NUMBERS_24                                                          \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110" \
  ",%111"
#define PLUMB_NUMBERS_32                                                   \
  PLUMB_NUMBERS_28                                                         \
  ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125" \
  ",%126,%127"
#define PLUMB_SUM(i) "+f"(d(4 * i)), "+f"(d(4 * i + 1)), "+f"(d(4 * i + 2)), "+f"(d(4 * i + 3))
#define PLUMB_SUMS_2 PLUMB_SUM(0), PLUMB_SUM(1)
#define PLUMB_SUMS_3 PLUMB_SUMS_2, PLUMB_SUM(2)
#define PLUMB_SUMS_4 PLUMB_SUMS_3, PLUMB_SUM(3)
#define PLUMB_SUMS_6 PLUMB_SUMS_4, PLUMB_SUM(4), PLUMB_SUM(5)
#define PLUMB_SUMS_8 PLUMB_SUMS_6, PLUMB_SUM(6), PLUMB_SUM(7)
#define PLUMB_SUMS_10 PLUMB_SUMS_8, PLUMB_SUM(8), PLUMB_SUM(9)
#define PLUMB_SUMS_12 PLUMB_SUMS_10, PLUMB_SUM(10), PLUMB_SUM(11)
#define PLUMB_SUMS_14 PLUMB_SUMS_12, PLUMB_SUM(12), PLUMB_SUM(13)
#define PLUMB_SUMS_16 PLUMB_SUMS_14, PLUMB_SUM(14), PLUMB_SUM(15)
#define PLUMB_SUMS_20 PLUMB_SUMS_16, PLUMB_SUM(16), PLUMB_SUM(17), PLUMB_SUM(18), PLUMB_SUM(19)
#define PLUMB_SUMS_24 PLUMB_SUMS_20, PLUMB_SUM(20), PLUMB_SUM(21), PLUMB_SUM(22), PLUMB_SUM(23)
#define PLUMB_SUMS_28 PLUMB_SUMS_24, PLUMB_SUM(24), PLUMB_SUM(25), PLUMB_SUM(26), PLUMB_SUM(27)
#define PLUMB_SUMS_32 PLUMB_SUMS_28, PLUMB_SUM(28), PLUMB_SUM(29), PLUMB_SUM(30), PLUMB_SUM(31)
// The operands behind the sums are A's four registers, B, and a 1 for adding to the sums.
#define PLUMB_WGMMA_AS(count, shape, kind, last, a, b, one)                          \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " one                           \
               ", 0;\n"                                                              \
               "wgmma.mma_async.sync.aligned." shape kind " {" PLUMB_NUMBERS_##count \
               "}, {" a "}, " b ", add, 1, 1" last ";\n}\n"                          \
               : PLUMB_SUMS_##count                                                  \
               : "r"(a_[0]), "r"(a_[1]), "r"(a_[2]), "r"(a_[3]), "l"(b_), "r"(1))
#define PLUMB_WGMMA(count, columns, a, b, one)                                         \
  if constexpr (n8_tiles == count) {                                                   \
    if constexpr (std::is_same_v<Operand, float>)                                      \
      PLUMB_WGMMA_AS(count, "m64n" columns "k8", ".f32.tf32.tf32", "", a, b, one);     \
    else if constexpr (std::is_same_v<Operand, __half>)                                \
      PLUMB_WGMMA_AS(count, "m64n" columns "k16", ".f32.f16.f16", ", 0", a, b, one);   \
    else                                                                               \
      PLUMB_WGMMA_AS(count, "m64n" columns "k16", ".f32.bf16.bf16", ", 0", a, b, one); \
  }
#endif

/// Computes D += A B. Operands are TF32 (`float`, eight terms), or fp16 or bf16 (sixteen terms).
/// `d(i)` is register i % 4 of D's eight columns i / 4.
template <class Operand, int n8_tiles, class Sums>
__device__ inline void wgmma([[maybe_unused]] Sums&& d, [[maybe_unused]] const Fragment (&a_)[4],
                             [[maybe_unused]] WgmmaMatrix matrix) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const std::uint64_t b_ = wgmma_descriptor(matrix);
  PLUMB_WGMMA(2, "16", "%8,%9,%10,%11", "%12", "%13")
  PLUMB_WGMMA(3, "24", "%12,%13,%14,%15", "%16", "%17")
  PLUMB_WGMMA(4, "32", "%16,%17,%18,%19", "%20", "%21")
  PLUMB_WGMMA(6, "48", "%24,%25,%26,%27", "%28", "%29")
  PLUMB_WGMMA(8, "64", "%32,%33,%34,%35", "%36", "%37")
  PLUMB_WGMMA(10, "80", "%40,%41,%42,%43", "%44", "%45")
  PLUMB_WGMMA(12, "96", "%48,%49,%50,%51", "%52", "%53")
  PLUMB_WGMMA(14, "112", "%56,%57,%58,%59", "%60", "%61")
  PLUMB_WGMMA(16, "128", "%64,%65,%66,%67", "%68", "%69")
  PLUMB_WGMMA(20, "160", "%80,%81,%82,%83", "%84", "%85")
  PLUMB_WGMMA(24, "192", "%96,%97,%98,%99", "%100", "%101")
  PLUMB_WGMMA(28, "224", "%112,%113,%114,%115", "%116", "%117")
  PLUMB_WGMMA(32, "256", "%128,%129,%130,%131", "%132", "%133")
  static_assert(n8_tiles == 2 || n8_tiles == 3 || (n8_tiles % 2 == 0 && n8_tiles <= 16) ||
                (n8_tiles % 4 == 0 && n8_tiles <= 32));
#endif
}

/// Computes D += A B, or D = A B where `add` is 0, for 128 columns in fp16 or bf16 with A in shared
/// memory too. `a` and `b` are whole descriptors without swizzling: core matrices of 8 rows by 16
/// bytes lie as far apart along the terms and along the rows as the descriptors say (PTX ISA).
template <class Operand>
__device__ inline void wgmma_strided([[maybe_unused]] float (&sums)[64],
                                     [[maybe_unused]] std::uint64_t a,
                                     [[maybe_unused]] std::uint64_t b, [[maybe_unused]] int add) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const auto d = [&sums](int i) -> float& { return sums[i]; };
#define PLUMB_WGMMA_SHARED(kind)                                               \
  asm volatile(                                                                \
      "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"                         \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32" kind " {" PLUMB_NUMBERS_16 \
      "}, %64, %65, add, 1, 1, 0, 0;\n}\n"                                     \
      : PLUMB_SUMS_16                                                          \
      : "l"(a), "l"(b), "r"(add))
  if constexpr (std::is_same_v<Operand, __half>)
    PLUMB_WGMMA_SHARED(".f16.f16");
  else
    PLUMB_WGMMA_SHARED(".bf16.bf16");
#undef PLUMB_WGMMA_SHARED
#endif
}
/// The same where n8 tiles of rows are 128 bytes each and follow each other; the upper halves of
/// `a` and `b` say how far apart the halves of the terms lie, in units of 16 bytes.
template <class Operand>
__device__ inline void wgmma_shared(float (&sums)[64], WgmmaMatrix a, WgmmaMatrix b, int add) {
  constexpr std::uint64_t n8_tiles_apart = std::uint64_t{128 / 16} << 32;
  wgmma_strided<Operand>(sums, n8_tiles_apart | a, n8_tiles_apart | b, add);
}

/// Describes a tile of 128-byte rows that are swizzled (swizzle.hpp), eight of them an atom of
/// 1,024 bytes, one behind the other: the lower half of the descriptor, for wgmma_swizzled(). The
/// next 32 bytes of all rows are a value of 2 further on. It is taken from one lane, as
/// wgmma_matrix() is.
__device__ inline WgmmaMatrix wgmma_swizzled_matrix(const void* shared) {
  constexpr WgmmaMatrix no_meaning = 1 << 16;  // of the leading dimension, one swizzle wide
  return __shfl_sync(0xffffffff, wgmma_address(shared) | no_meaning, 0);
}
/// How terms lie in a swizzled tile: along its rows (PTX ISA, "K-major"), or across them, where a
/// row is a term and has 64 rows of A or columns of B side by side ("MN-major", in fp16 and bf16).
enum class WgmmaTerms { along, across };

/// Describes a tile whose terms lie across, for wgmma_swizzled(). The next 64 rows of A or columns
/// of B begin `bytes` behind the first; where there are no more than 64, the tile is also what
/// wgmma_swizzled_matrix() describes. 16 more terms are wgmma_across_bytes further on. It is taken
/// from one lane, as wgmma_matrix() is.
__device__ inline WgmmaMatrix wgmma_across_matrix(const void* shared, int bytes) {
  const WgmmaMatrix behind = static_cast<WgmmaMatrix>(bytes / 16) << 16;
  return __shfl_sync(0xffffffff, wgmma_address(shared) | behind, 0);
}
inline constexpr int wgmma_across_bytes = 16 * 128;

/// Computes D += A B, or D = A B where `add` is 0, with 32 bytes of terms (16 in fp16 or bf16, 8 in
/// TF32, which is `float`) of 64 rows of A and of 8 `n8_tiles` columns of B, both swizzled tiles in
/// shared memory.
template <class Operand, int n8_tiles, WgmmaTerms of_a = WgmmaTerms::along,
          WgmmaTerms of_b = WgmmaTerms::along>
__device__ inline void wgmma_swizzled([[maybe_unused]] float (&sums)[4 * n8_tiles],
                                      [[maybe_unused]] WgmmaMatrix a_,
                                      [[maybe_unused]] WgmmaMatrix b_, [[maybe_unused]] int add) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr std::uint64_t atoms_apart = std::uint64_t{1024 / 16} << 32, swizzle = 1ull << 62;
  const auto d = [&sums](int i) -> float& { return sums[i]; };
// TF32 has no operands that say how terms lie: along.
#define PLUMB_WGMMA_SWIZZLED_AS(count, columns, kind, last, a, b, one)                       \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " one                                   \
               ", 0;\n"                                                                      \
               "wgmma.mma_async.sync.aligned.m64n" columns kind " {" PLUMB_NUMBERS_##count   \
               "}, " a ", " b ", add, 1, 1" last ";\n}\n"                                    \
               : PLUMB_SUMS_##count                                                          \
               : "l"(swizzle | atoms_apart | a_), "l"(swizzle | atoms_apart | b_), "r"(add), \
                 "n"(static_cast<int>(of_a)), "n"(static_cast<int>(of_b)))
#define PLUMB_WGMMA_SWIZZLED(count, columns, a, b, one, lie)                        \
  if constexpr (n8_tiles == count) {                                                \
    if constexpr (std::is_same_v<Operand, float>)                                   \
      PLUMB_WGMMA_SWIZZLED_AS(count, columns, "k8.f32.tf32.tf32", "", a, b, one);   \
    else if constexpr (std::is_same_v<Operand, __half>)                             \
      PLUMB_WGMMA_SWIZZLED_AS(count, columns, "k16.f32.f16.f16", lie, a, b, one);   \
    else                                                                            \
      PLUMB_WGMMA_SWIZZLED_AS(count, columns, "k16.f32.bf16.bf16", lie, a, b, one); \
  }
  PLUMB_WGMMA_SWIZZLED(8, "64", "%32", "%33", "%34", ", %35, %36")
  PLUMB_WGMMA_SWIZZLED(16, "128", "%64", "%65", "%66", ", %67, %68")
  PLUMB_WGMMA_SWIZZLED(24, "192", "%96", "%97", "%98", ", %99, %100")
  PLUMB_WGMMA_SWIZZLED(32, "256", "%128", "%129", "%130", ", %131, %132")
  static_assert(sizeof(Operand) == 2 || (of_a == WgmmaTerms::along && of_b == WgmmaTerms::along));
  static_assert(n8_tiles % 8 == 0 && n8_tiles <= 32);
#undef PLUMB_WGMMA_SWIZZLED
#undef PLUMB_WGMMA_SWIZZLED_AS
#endif
}

#undef PLUMB_WGMMA
#undef PLUMB_WGMMA_AS
#undef PLUMB_SUM
#undef PLUMB_NUMBERS_2
#undef PLUMB_SUMS_2
#undef PLUMB_NUMBERS_3
#undef PLUMB_SUMS_3
#undef PLUMB_NUMBERS_4
#undef PLUMB_SUMS_4
#undef PLUMB_NUMBERS_6
#undef PLUMB_SUMS_6
#undef PLUMB_NUMBERS_8
#undef PLUMB_SUMS_8
#undef PLUMB_NUMBERS_10
#undef PLUMB_SUMS_10
#undef PLUMB_NUMBERS_12
#undef PLUMB_SUMS_12
#undef PLUMB_NUMBERS_14
#undef PLUMB_SUMS_14
#undef PLUMB_NUMBERS_16
#undef PLUMB_SUMS_16
#undef PLUMB_NUMBERS_20
#undef PLUMB_SUMS_20
#undef PLUMB_NUMBERS_24
#undef PLUMB_SUMS_24
#undef PLUMB_NUMBERS_28
#undef PLUMB_SUMS_28
#undef PLUMB_NUMBERS_32
#undef PLUMB_SUMS_32

}  // namespace plumb::cuda
