// Matrix products of four warps at a time on tensor cores (PTX wgmma, sm_90a): D += A B, with A of
// 64 rows, sixteen of each warp, in registers as mma.cuh's fragments are, and B in shared memory. D
// has eight columns times `eights`, each eight of them held as mma.cuh's D is.
//
// B's eights follow each other, 256 bytes each: two halves of its terms, and in each the eight
// columns, 16 bytes of terms that follow each other (the PTX ISA's K-major layout without
// swizzling).
//
// Products run on by themselves: between wgmma_begin() and wgmma_end() nothing may touch their
// registers, and what wrote B is ordered by order_shared_writes() and a barrier.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "cuda_kernels/common/mma.cuh"

namespace plumb::cuda {

/// Whether the code being compiled may use what follows.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
inline constexpr bool warpgroup_products = true;
#else
inline constexpr bool warpgroup_products = false;
#endif

inline constexpr int wgmma_eight_bytes = 256;  ///< of B, for eight columns

/// The lower half of B's descriptor; what is in the upper one never changes. So many bytes further
/// on is so many sixteenths more.
using WgmmaMatrix = std::uint32_t;

/// B that begins at `shared`, a multiple of 16 bytes and the same for all lanes of a warp. Taken
/// from one lane, so that compilers know it for the same and keep it in a uniform register:
/// otherwise each product has its descriptor carried over to two of these.
__device__ inline WgmmaMatrix wgmma_matrix(const void* shared) {
  constexpr WgmmaMatrix halves_apart = 128 / 16;
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  return __shfl_sync(0xffffffff, (address & 0x3ffff) / 16 | halves_apart << 16, 0);
}
__device__ inline std::uint64_t wgmma_descriptor(WgmmaMatrix matrix) {
  constexpr std::uint64_t eights_apart = wgmma_eight_bytes / 16;
  return eights_apart << 32 | matrix;
}

__device__ inline void wgmma_begin() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
/// No product can be added to the group after this; their registers are free after wgmma_end().
__device__ inline void wgmma_commit() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
/// Until no more than the last `running` groups are.
template <int running = 0>
__device__ inline void wgmma_end() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(running) : "memory");
#endif
}

/// Before wgmma_begin() and after wgmma_end(): compilers do not know when products read and write
/// their sums.
__device__ inline void wgmma_settle(float (&sums)[4]) {
#pragma unroll
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define PLUMB_SUMS_OF(i) "+f"(d(4 * i)), "+f"(d(4 * i + 1)), "+f"(d(4 * i + 2)), "+f"(d(4 * i + 3))
// The numbers of asm's operands are part of its text: sums come first, then A's four registers, B,
// and a 1 for adding to the sums.
#define PLUMB_WGMMA_AS(shape, kind, last, sums, a, b, one, ...)                      \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " one                           \
               ", 0;\n"                                                              \
               "wgmma.mma_async.sync.aligned." shape kind " {" sums "}, {" a "}, " b \
               ", add, 1, 1" last ";\n}\n"                                           \
               : __VA_ARGS__                                                         \
               : "r"(a_[0]), "r"(a_[1]), "r"(a_[2]), "r"(a_[3]), "l"(b_), "r"(1))
#define PLUMB_WGMMA(columns, sums, a, b, one, ...)                                             \
  if constexpr (std::is_same_v<Operand, float>)                                                \
    PLUMB_WGMMA_AS("m64n" columns "k8", ".f32.tf32.tf32", "", sums, a, b, one, __VA_ARGS__);   \
  else if constexpr (std::is_same_v<Operand, __half>)                                          \
    PLUMB_WGMMA_AS("m64n" columns "k16", ".f32.f16.f16", ", 0", sums, a, b, one, __VA_ARGS__); \
  else                                                                                         \
    PLUMB_WGMMA_AS("m64n" columns "k16", ".f32.bf16.bf16", ", 0", sums, a, b, one, __VA_ARGS__)
#endif

/// The eights of the first instruction for so many: those that are not written out take two.
template <int eights>
inline constexpr int wgmma_first = eights == 5   ? 2
                                   : eights == 7 ? 3
                                   : eights > 8  ? eights / 4 * 2
                                                 : eights;

/// D += A B, of operands in TF32 (`float`, eight terms), fp16 or bf16 (sixteen). `d(i)` is register
/// i % 4 of D's eight columns i / 4.
template <class Operand, int eights, class Sums>
__device__ inline void wgmma([[maybe_unused]] Sums&& d, [[maybe_unused]] const Fragment (&a_)[4],
                             [[maybe_unused]] WgmmaMatrix matrix) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const std::uint64_t b_ = wgmma_descriptor(matrix);
  constexpr int first = wgmma_first<eights>;
  if constexpr (first < eights) {
    wgmma<Operand, first>(d, a_, matrix);
    wgmma<Operand, eights - first>([&d](int i) -> float& { return d(4 * first + i); }, a_,
                                   matrix + first * wgmma_eight_bytes / 16);
    return;
  }
  static_assert(first < eights || eights <= 4 || eights == 6 || eights == 8);
  if constexpr (eights == 1) {
    PLUMB_WGMMA("8", "%0,%1,%2,%3", "%4,%5,%6,%7", "%8", "%9", PLUMB_SUMS_OF(0));
  }
  if constexpr (eights == 2) {
    PLUMB_WGMMA("16", "%0,%1,%2,%3,%4,%5,%6,%7", "%8,%9,%10,%11", "%12", "%13", PLUMB_SUMS_OF(0),
                PLUMB_SUMS_OF(1));
  }
  if constexpr (eights == 3) {
    PLUMB_WGMMA("24", "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11", "%12,%13,%14,%15", "%16", "%17",
                PLUMB_SUMS_OF(0), PLUMB_SUMS_OF(1), PLUMB_SUMS_OF(2));
  }
  if constexpr (eights == 4) {
    PLUMB_WGMMA("32", "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15", "%16,%17,%18,%19",
                "%20", "%21", PLUMB_SUMS_OF(0), PLUMB_SUMS_OF(1), PLUMB_SUMS_OF(2),
                PLUMB_SUMS_OF(3));
  }
  if constexpr (eights == 6) {
    PLUMB_WGMMA("48",
                "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                "%16,%17,%18,%19,%20,%21,%22,%23",
                "%24,%25,%26,%27", "%28", "%29", PLUMB_SUMS_OF(0), PLUMB_SUMS_OF(1),
                PLUMB_SUMS_OF(2), PLUMB_SUMS_OF(3), PLUMB_SUMS_OF(4), PLUMB_SUMS_OF(5));
  }
  if constexpr (eights == 8) {
    PLUMB_WGMMA("64",
                "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31",
                "%32,%33,%34,%35", "%36", "%37", PLUMB_SUMS_OF(0), PLUMB_SUMS_OF(1),
                PLUMB_SUMS_OF(2), PLUMB_SUMS_OF(3), PLUMB_SUMS_OF(4), PLUMB_SUMS_OF(5),
                PLUMB_SUMS_OF(6), PLUMB_SUMS_OF(7));
  }
#endif
}

#undef PLUMB_WGMMA
#undef PLUMB_WGMMA_AS
#undef PLUMB_SUMS_OF

}  // namespace plumb::cuda
