// Matrix products of one warp on tensor cores (PTX mma.sync, sm_80): D += A B, with A of 16 rows
// and B of 8 columns. Each lane holds some elements of each matrix. With group = lane / 4 and t =
// lane % 4, as the PTX ISA's chapter on mma has it:
//   D[group][2t], D[group][2t + 1], D[group + 8][2t], D[group + 8][2t + 1];
//   tf32, 8 terms: A[group][t], A[group + 8][t], A[group][t + 4], A[group + 8][t + 4];
//                  B[t][group], B[t + 4][group];
//   fp16, 16 terms, two in a register, the first in its low half:
//                  A[group][2t..], A[group + 8][2t..], A[group][2t + 8..], A[group + 8][2t + 8..];
//                  B[2t..][group], B[2t + 8..][group];
//   fp16, 8 terms: A[group][2t..], A[group + 8][2t..]; B[2t..][group];
//   bf16: as fp16.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace plumb::cuda {

using Fragment = std::uint32_t;  // one tf32 or two fp16

__device__ inline void mma_tf32(float (&d)[4], const Fragment (&a)[4], const Fragment (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline void mma_fp16(float (&d)[4], const Fragment (&a)[4], const Fragment (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline void mma_fp16(float (&d)[4], const Fragment (&a)[2], Fragment b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
}

__device__ inline void mma_bf16(float (&d)[4], const Fragment (&a)[4], const Fragment (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline void mma_bf16(float (&d)[4], const Fragment (&a)[2], Fragment b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
}

/// Loads B fragments of fp16 for 16 pixels from rows of terms: b[0] and b[1] hold the first eight
/// pixels, b[2] and b[3] the others. Lane l passes the address of the row of term l % 16 at pixel l
/// / 16 * 8, a multiple of 16 bytes.
__device__ inline void load_transposed(Fragment (&b)[4], const __half* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(address)
               : "memory");
}

/// Rounds to nearest, ties away from zero. The result is a float whose lowest 13 bits are zero.
__device__ inline float to_tf32(float value) {
  Fragment bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return __uint_as_float(bits);
}

/// An operand type of tensor cores: how an element is held, and one step of the product.
struct Tf32Product {
  using Element = float;
  static constexpr int terms = 8;
  __device__ static Element element(float value) { return to_tf32(value); }
  __device__ static void step(float (&d)[4], const Fragment (&a)[4], const Fragment (&b)[2]) {
    mma_tf32(d, a, b);
  }
};
struct Fp16Product {
  using Element = __half;
  static constexpr int terms = 16;
  __device__ static Element element(float value) { return __float2half_rn(value); }
  __device__ static void step(float (&d)[4], const Fragment (&a)[4], const Fragment (&b)[2]) {
    mma_fp16(d, a, b);
  }
};

/// Number of terms in a step of a block that unrolls the input to shared memory.
inline constexpr int step_terms = 16;

/// Filters or pixels of a block, with the terms of a step side by side. The pitch puts the eight
/// rows by four registers of a fragment in 32 different banks.
template <class Product, int rows>
struct TermTile {
  using Element = typename Product::Element;
  static constexpr int pitch = step_terms + 16 / static_cast<int>(sizeof(Element));
  alignas(16) Element at[rows][pitch];

  /// Returns the register whose first element is the one at `row` and `term`.
  __device__ Fragment fragment(int row, int term) const {
    return *reinterpret_cast<const Fragment*>(&at[row][term]);
  }
};

}  // namespace plumb::cuda
