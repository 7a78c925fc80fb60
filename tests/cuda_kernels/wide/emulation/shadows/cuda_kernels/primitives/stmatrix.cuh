// stmatrix, emulated: a warp's lanes show each other where columns go.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace plumb::cuda {

inline void store_columns(void* column, const std::uint32_t (&of)[4]) {
  static char* shown[32][32];
  const unsigned lane = threadIdx.x % 32;
  auto& columns = shown[threadIdx.x / 32];
  if (reinterpret_cast<std::uintptr_t>(column) % 16 != 0)
    throw std::runtime_error("a matrix is not aligned");
  columns[lane] = static_cast<char*>(column);
  __syncwarp();
  for (unsigned matrix = 0; matrix < 4; ++matrix)
    for (unsigned i = 0; i < 2; ++i) {
      const auto element = static_cast<std::uint16_t>(of[matrix] >> 16 * i);
      std::memcpy(columns[8 * matrix + lane % 4 * 2 + i] + 2 * (lane / 4), &element, 2);
    }
  __syncwarp();
}

}  // namespace plumb::cuda
