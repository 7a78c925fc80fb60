// stmatrix, emulated: a warp's lanes show each other where columns go.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace plumb::cuda {

/// Returns where each lane has its column or row go.
inline char* const (&shown_by_warp(void* own))[32] {
  static char* shown[shown_warps][32];
  auto& of_warp = shown[plumb_test::emulation::warp_of_cluster()];
  if (reinterpret_cast<std::uintptr_t>(own) % 16 != 0)
    throw std::runtime_error("a matrix is not aligned");
  of_warp[threadIdx.x % 32] = static_cast<char*>(own);
  __syncwarp();
  return of_warp;
}

inline void store_columns(void* column, const std::uint32_t (&of)[4]) {
  const unsigned lane = threadIdx.x % 32;
  auto& columns = shown_by_warp(column);
  for (unsigned matrix = 0; matrix < 4; ++matrix)
    for (unsigned i = 0; i < 2; ++i) {
      const auto element = static_cast<std::uint16_t>(of[matrix] >> 16 * i);
      std::memcpy(columns[8 * matrix + lane % 4 * 2 + i] + 2 * (lane / 4), &element, 2);
    }
  __syncwarp();
}
inline void store_rows(void* row, const std::uint32_t (&of)[4]) {
  const unsigned lane = threadIdx.x % 32;
  auto& rows = shown_by_warp(row);
  for (unsigned matrix = 0; matrix < 4; ++matrix)
    std::memcpy(rows[8 * matrix + lane / 4] + 4 * (lane % 4), &of[matrix], 4);
  __syncwarp();
}

}  // namespace plumb::cuda
