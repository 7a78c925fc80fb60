// TF32 on the host.
#pragma once

#include <bit>
#include <cstdint>

namespace plumb::cuda {

/// To the nearest, ties away from zero.
inline float to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

}  // namespace plumb::cuda
