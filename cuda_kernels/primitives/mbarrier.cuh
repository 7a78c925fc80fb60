// Threads of a block arrive at a barrier in shared memory and wait for it at different times (PTX
// mbarrier, sm_90).
#pragma once

#include <cstdint>
#ifdef PLUMB_BOUNDED_WAITS
#include <cstdio>
#endif

namespace plumb::cuda {

/// A barrier that `arrivals` threads arrive at, in rounds of parity 0, 1, 0 and so on. Every wait
/// for a round ends before the next round but one begins.
class Mbarrier {
 public:
  /// One thread calls it, before a barrier of the block.
  __device__ void init(int arrivals) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals)
                 : "memory");
#endif
  }
  __device__ void arrive() {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
#endif
  }
  /// Waits until the round of that parity is complete. With PLUMB_BOUNDED_WAITS, for looking for a
  /// kernel that hangs, a wait of two seconds says where and stops the kernel.
  __device__ void wait(int parity) {
#if __CUDA_ARCH__ >= 900 && defined(PLUMB_BOUNDED_WAITS)
    for (std::uint64_t begin = nanoseconds(); !is_complete(parity);)
      if (nanoseconds() - begin > 2000000000ull) {
        printf("block %d thread %d waits for parity %d of the barrier at shared byte %u\n",
               static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x), parity, address());
        __trap();
      }
#elif __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(address()),
        "r"(parity)
        : "memory");
#endif
  }

 protected:
  __device__ std::uint32_t address() {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(&bits_));
  }

 private:
#ifdef PLUMB_BOUNDED_WAITS
  __device__ static std::uint64_t nanoseconds() {
    std::uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
  }
  __device__ bool is_complete([[maybe_unused]] int parity) {
    int done = 1;
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.b32 %0, 1, 0, done;\n"
        "}\n"
        : "=r"(done)
        : "r"(address()), "r"(parity)
        : "memory");
#endif
    return done != 0;
  }
#endif

  std::uint64_t bits_;
};

}  // namespace plumb::cuda
