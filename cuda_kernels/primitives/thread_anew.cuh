// The thread's number, for code that has no register to hold it in.
#pragma once

namespace plumb::cuda {

/// Returns the thread's number in the block, read anew: otherwise the compiler would make what
/// follows from it before a loop, and hold it in registers through all of it.
__device__ inline int thread_anew() {
  int thread = static_cast<int>(threadIdx.x);
  asm volatile("" : "+r"(thread));
  return thread;
}

/// Returns the thread's lane, likewise.
__device__ inline int lane_anew() { return thread_anew() & 31; }

}  // namespace plumb::cuda
