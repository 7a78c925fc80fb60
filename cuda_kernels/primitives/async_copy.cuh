// cp.async copies from global to shared memory without passing through registers (PTX, sm_80).
#pragma once

#include <cstdint>

namespace plumb::cuda {

/// Copies 4, 8 or 16 bytes between addresses that are multiples of as many; where `valid` is false
/// it reads nothing and writes zeros. The calling thread sees the copy once it has called
/// wait_for_copies(); the other threads see it after a barrier behind that call.
template <int bytes>
__device__ inline void copy_bytes_async(void* to_shared, const void* from, bool valid) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(to_shared));
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(bytes),
               "r"(valid ? bytes : 0)
               : "memory");
}
/// Copies one element of 4 bytes.
__device__ inline void copy_async(float* to_shared, const float* from, bool valid) {
  copy_bytes_async<4>(to_shared, from, valid);
}

/// Copies 16 bytes; both addresses are multiples of 16.
__device__ inline void copy_16_bytes_async(void* to_shared, const void* from) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(to_shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/// Copies the first `bytes` of 16, and writes zeros behind them; both addresses are multiples
/// of 16.
__device__ inline void copy_16_bytes_async(void* to_shared, const void* from, int bytes) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(to_shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

/// Ends a group, which holds the thread's copies since the group before.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until no more than the last `running` groups of the thread's copies are under way.
template <int running>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(running) : "memory");
}

__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace plumb::cuda
