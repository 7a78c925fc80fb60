// GPUs that are planned for and not there.
#pragma once

#include <cstddef>

#include "plumb/device.hpp"

namespace plumb_test {

inline plumb::DeviceInfo absent_gpu(int compute_major, int units, std::size_t shared_memory_bytes,
                                    double bytes_per_second, double fp32_flop_per_second) {
  plumb::DeviceInfo info;
  info.id = {.backend = "cuda"};
  info.compute_major = compute_major;
  info.units = units;
  info.shared_memory_bytes = shared_memory_bytes;
  info.nominal_bytes_per_second = bytes_per_second;
  info.nominal_fp32_flop_per_second = fp32_flop_per_second;
  return info;
}
inline plumb::DeviceInfo hopper() { return absent_gpu(9, 132, 227 << 10, 4.8e12, 67e12); }
inline plumb::DeviceInfo ampere() { return absent_gpu(8, 108, 163 << 10, 2.0e12, 19.5e12); }

}  // namespace plumb_test
