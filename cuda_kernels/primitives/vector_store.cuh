// A store of sixteen bytes that the compiler does not take apart.
#pragma once

namespace plumb::cuda {

/// Writes words to global memory, at an aligned address, at once.
__device__ inline void store_at_once(void* to, const uint4& words) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.x), "r"(words.y),
               "r"(words.z), "r"(words.w)
               : "memory");
#else
  *static_cast<uint4*>(to) = words;
#endif
}

}  // namespace plumb::cuda
