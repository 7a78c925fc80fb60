// Two neighbours of a row, written at once.
#pragma once

#include <cstdint>

#include "cuda_kernels/common/window_products.cuh"

namespace plumb::cuda {

/// By one instruction: left to themselves, compilers write f32 pairs as this and as other paths do,
/// one by one.
template <bool shared, class Stored>
__device__ inline void write_pair(Stored* to, float first, float second) {
  if constexpr (sizeof(Stored) < sizeof(float))
    *reinterpret_cast<Fragment*>(to) = two_halves<Stored>(first, second);
  else if constexpr (shared)
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
                 "f"(first), "f"(second)
                 : "memory");
  else
    asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(first), "f"(second) : "memory");
}

}  // namespace plumb::cuda
