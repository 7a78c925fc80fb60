// What a warp does at once: rows of fragments are read from shared memory; and two sums are
// rounded at once.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda_kernels/primitives/mma.cuh"

namespace plumb::cuda::depthwise_toeplitz {

/// Returns a number that the compiler must not have made before.
__device__ inline int anew(int number) {
  asm volatile("" : "+r"(number));
  return number;
}

/// The same of an address in global memory: an offset is then added to it in one instruction.
template <class T>
__device__ inline T* anew(T* address) {
  asm volatile("" : "+l"(address));
  return address;
}

/// An address of shared memory, in elements of 16 bits.
class SharedRow {
 public:
  SharedRow() = default;
  __device__ explicit SharedRow(const std::uint16_t* at)
      : address_(static_cast<std::uint32_t>(__cvta_generic_to_shared(at))) {}
  __device__ SharedRow operator+(int elements) const {
    SharedRow row;
    row.address_ = address_ + 2 * static_cast<std::uint32_t>(elements);
    return row;
  }
  __device__ std::uint32_t address() const { return address_; }

 private:
  std::uint32_t address_;
};

/// Loads 16 rows of eight columns, and 16 of eight others. Lane l passes the address of row l % 16,
/// of the first ones where l < 16, a multiple of 16 bytes.
__device__ inline void load_two_halves(Fragment (&first)[2], Fragment (&second)[2], SharedRow row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(first[0]), "=r"(first[1]), "=r"(second[0]), "=r"(second[1])
               : "r"(row.address())
               : "memory");
}
/// Loads the first ones alone.
__device__ inline void load_half(Fragment (&half)[2], SharedRow row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(half[0]), "=r"(half[1])
               : "r"(row.address())
               : "memory");
}

/// Returns a + 0 b for both numbers of a word.
template <class Stored>
__device__ inline std::uint32_t plus_zero_times(std::uint32_t a, std::uint32_t b) {
  using Pair = std::conditional_t<std::is_same_v<Stored, __half>, __half2, __nv_bfloat162>;
  const std::uint32_t zero = 0;
  const auto pair = [](const std::uint32_t& bits) { return *reinterpret_cast<const Pair*>(&bits); };
  const Pair sum = __hfma2(pair(b), pair(zero), pair(a));
  return *reinterpret_cast<const std::uint32_t*>(&sum);
}

/// Returns the low halves of two words as one word, the first one's below.
__device__ inline std::uint32_t low_halves(std::uint32_t first, std::uint32_t second) {
  return __byte_perm(first, second, 0x5410);
}
__device__ inline std::uint32_t high_halves(std::uint32_t first, std::uint32_t second) {
  return __byte_perm(first, second, 0x7632);
}

/// Writes words to global memory in one instruction. The assembly is needed because compilers merge
/// stores of several widths, and then write the words one by one.
__device__ inline void write_words(void* to, const std::uint32_t (&words)[1]) {
  asm volatile("st.global.b32 [%0], %1;" ::"l"(to), "r"(words[0]) : "memory");
}
__device__ inline void write_words(void* to, const std::uint32_t (&words)[2]) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(words[0]), "r"(words[1])
               : "memory");
}
__device__ inline void write_words(void* to, const std::uint32_t (&words)[4]) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}

/// Rounds two sums to the stored type, of which none may be less than the one given. A zero has no
/// sign, and a NaN stays one.
template <class Stored>
__device__ inline std::uint32_t rounded_pair(float first, float second, float least) {
  if constexpr (std::is_same_v<Stored, __half>) {
    const __half2 pair =
        __hadd2(__hmax2_nan(__floats2half2_rn(first, second), __float2half2_rn(least)),
                __float2half2_rn(0.0f));
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair =
        __hadd2(__hmax2_nan(__floats2bfloat162_rn(first, second), __float2bfloat162_rn(least)),
                __float2bfloat162_rn(0.0f));
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
}

}  // namespace plumb::cuda::depthwise_toeplitz
