// Two neighbouring outputs of a row are written in one instruction, or one after the other.
#pragma once

#include <cstdint>

#include "cuda_kernels/few_channels/window_products.cuh"
#include "cuda_kernels/primitives/max_nan.cuh"

namespace plumb::cuda {

/// Writes two neighbours in one instruction. The assembly is needed because compilers merge the
/// stores of f32 pairs with those of other paths, and then write the elements one by one.
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

/// Two outputs as they are stored, raised to the activation's lower limit, which least() has
/// converted. Halves are rounded, and raised, two by an instruction.
template <class Stored>
class TwoOutputs {
 public:
  __device__ TwoOutputs(float first, float second, Fragment least)
      : both_(raised(two_halves<Stored>(first, second), least)) {}

  __device__ static Fragment least(float of) { return two_halves<Stored>(of, of); }
  __device__ void write(Stored* to) const { *reinterpret_cast<Fragment*>(to) = both_; }
  __device__ void write_first(Stored* to) const { write_half(to, both_); }
  __device__ void write_second(Stored* to) const { write_half(to, both_ >> 16); }

 private:
  __device__ static Fragment raised(Fragment of, Fragment least) {
    using Pair = HalfPair<Stored>;
    const Pair result =
        __hmax2_nan(*reinterpret_cast<const Pair*>(&of), *reinterpret_cast<const Pair*>(&least));
    return *reinterpret_cast<const Fragment*>(&result);
  }
  __device__ static void write_half(Stored* to, Fragment bits) {
    *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(bits);
  }

  Fragment both_;
};
template <>
class TwoOutputs<float> {
 public:
  __device__ TwoOutputs(float first, float second, float least)
      : first_(max_nan(first, least)), second_(max_nan(second, least)) {}

  __device__ static float least(float of) { return of; }
  __device__ void write(float* to) const { write_pair<false>(to, first_, second_); }
  __device__ void write_first(float* to) const { *to = first_; }
  __device__ void write_second(float* to) const { *to = second_; }

 private:
  float first_, second_;
};

}  // namespace plumb::cuda
