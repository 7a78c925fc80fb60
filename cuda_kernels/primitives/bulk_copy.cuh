// The copy engine copies any length from global to shared memory (PTX cp.async.bulk, sm_90), and a
// barrier in shared memory counts the bytes (PTX mbarrier).
#pragma once

#include <cstdint>

#include "cuda_kernels/primitives/mbarrier.cuh"

namespace plumb::cuda {

/// Whether the code being compiled may use what follows. Code compiled for an older architecture
/// may not use it, even where a newer device runs that code.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
inline constexpr bool bulk_copies = true;
#else
inline constexpr bool bulk_copies = false;
#endif

/// A barrier in shared memory for copies that come in rounds. One thread expects and begins the
/// copies of a round; all threads may wait for them.
class CopyBarrier : public Mbarrier {
 public:
  /// One thread calls it, before a barrier of the block.
  __device__ void init() {
    Mbarrier::init(1);
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }
  /// Begins a round of `bytes`. One thread calls it, after a barrier of the block that follows all
  /// reads of the memory that is copied to.
  __device__ void expect(int bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
                 "r"(bytes)
                 : "memory");
#endif
  }
  /// Begins one copy of the round. Addresses and `bytes` are multiples of 16.
  __device__ void copy(void* to_shared, const void* from, int bytes) {
#if __CUDA_ARCH__ >= 900
    const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(to_shared));
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(to),
        "l"(from), "r"(bytes), "r"(address())
        : "memory");
#endif
  }
};

/// Orders what the thread wrote to shared memory before what the copy engine and wgmma read of it
/// after a barrier.
__device__ inline void order_shared_writes() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
/// Begins a store from shared to global memory. A single thread calls it, after all threads have
/// called order_shared_writes() and met at a barrier; it also commits its stores and waits for
/// them. Addresses and `bytes` are multiples of 16.
__device__ inline void bulk_store(void* to, const void* from_shared, int bytes) {
#if __CUDA_ARCH__ >= 900
  const auto from = static_cast<std::uint32_t>(__cvta_generic_to_shared(from_shared));
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
#endif
}
__device__ inline void commit_stores() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}
/// Waits until the thread's stores have read shared memory, but for the last `running` groups.
template <int running = 0>
__device__ inline void wait_for_store_reads() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(running) : "memory");
#endif
}

}  // namespace plumb::cuda
