// Rows of fragments, and two sums that are rounded, on the host.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "cuda_kernels/primitives/mma.cuh"

namespace plumb::cuda::depthwise_toeplitz {

template <class T>
T anew(T value) {
  return value;
}

class SharedRow {
 public:
  SharedRow() = default;
  explicit SharedRow(const std::uint16_t* at) : at_(at) {}
  SharedRow operator+(int elements) const { return SharedRow(at_ + elements); }
  const std::uint16_t* aligned() const {
    if (reinterpret_cast<std::uintptr_t>(at_) % 16 != 0)
      throw std::runtime_error("a row of a fragment is not aligned to 16 bytes");
    return at_;
  }

 private:
  const std::uint16_t* at_ = nullptr;
};

inline Fragment pair_of_row(const std::uint16_t* row, unsigned lane) {
  Fragment pair;
  std::memcpy(&pair, row + 2 * (lane % 4), sizeof pair);
  return pair;
}
inline void load_two_halves(Fragment (&first)[2], Fragment (&second)[2], SharedRow row) {
  const auto& rows = shown_to_warp(row.aligned());
  const unsigned lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 2; ++i) {
    first[i] = pair_of_row(rows[8 * i + lane / 4], lane);
    second[i] = pair_of_row(rows[16 + 8 * i + lane / 4], lane);
  }
}
inline void load_half(Fragment (&half)[2], SharedRow row) {
  const auto& rows = shown_to_warp(row.aligned());
  const unsigned lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 2; ++i) half[i] = pair_of_row(rows[8 * i + lane / 4], lane);
}

/// A NaN's bits where a number is not finite, of either type.
template <class Stored>
std::uint32_t plus_zero_times(std::uint32_t a, std::uint32_t b) {
  constexpr std::uint32_t infinity = std::is_same_v<Stored, __half> ? 0x7c00 : 0x7f80;
  for (const int half : {0, 16})
    if ((b >> half & infinity) == infinity) a |= 0x7fffu << half;
  return a;
}

inline std::uint32_t low_halves(std::uint32_t first, std::uint32_t second) {
  return (first & 0xffff) | second << 16;
}
inline std::uint32_t high_halves(std::uint32_t first, std::uint32_t second) {
  return first >> 16 | (second & 0xffff0000);
}

template <std::size_t words>
void write_words(void* to, const std::uint32_t (&of)[words]) {
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(of) != 0)
    throw std::runtime_error("a vector is not aligned to its size");
  std::memcpy(to, of, sizeof(of));
}

template <class Stored>
std::uint32_t rounded_pair(float first, float second, float least) {
  const auto bits = [least](float sum) {
    if (sum < least) sum = least;
    Stored stored{};
    if constexpr (std::is_same_v<Stored, __half>)
      stored = __float2half_rn(__half2float(__float2half_rn(sum)) + 0.0f);
    else
      stored = __float2bfloat16_rn(__bfloat162float(__float2bfloat16_rn(sum)) + 0.0f);
    std::uint16_t of;
    std::memcpy(&of, &stored, sizeof of);
    return of;
  };
  return bits(first) | static_cast<std::uint32_t>(bits(second)) << 16;
}

}  // namespace plumb::cuda::depthwise_toeplitz
