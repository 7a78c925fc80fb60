// The blocks of a cluster run at the same time, meet, and write to each other's shared memory (PTX
// barrier.cluster, mapa and st.async, sm_90). A block may not end while others still write to it.
#pragma once

#include <cstdint>

#include "cuda_kernels/primitives/tensor_copy.cuh"

namespace plumb::cuda {

/// A barrier of all the cluster's threads that have not ended. Whole warps call it. What threads
/// have read before may be written over after; what they have written is not ordered, which would
/// take a fence of the whole device.
__device__ inline void meet_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "barrier.cluster.arrive.relaxed.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
#endif
}

/// A barrier in shared memory that counts the bytes that other blocks send; arrive_expecting() says
/// how many, before or after they come.
class SentBarrier : public StageBarrier {
 public:
  /// Waits until the round of that parity is complete. What was sent can be read then.
  __device__ void wait_for_blocks([[maybe_unused]] int parity) {
#ifdef PLUMB_BOUNDED_WAITS
    wait(parity);  // says where it waits in vain
#endif
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(address()),
        "r"(parity)
        : "memory");
#endif
  }

 private:
  friend class ClusterMemory;
};

/// Memory of another block, and a barrier there that counts what it is sent: those that lie in this
/// block's shared memory where `memory` and `counts` do.
class ClusterMemory {
 public:
  __device__ ClusterMemory(const void* memory, SentBarrier& counts, int block)
      : memory_(in_block(static_cast<std::uint32_t>(__cvta_generic_to_shared(memory)), block)),
        barrier_(in_block(counts.address(), block)) {}
  /// Sends 16 bytes to so many bytes behind the memory's begin, a multiple of 16. Nobody reads them
  /// before the barrier's round is complete.
  __device__ void send([[maybe_unused]] int at, [[maybe_unused]] const float4& of) const {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
        "[%5];" ::"r"(memory_ + static_cast<std::uint32_t>(at)),
        "f"(of.x), "f"(of.y), "f"(of.z), "f"(of.w), "r"(barrier_)
        : "memory");
#endif
  }

 private:
  __device__ static std::uint32_t in_block(std::uint32_t address, [[maybe_unused]] int block) {
#if __CUDA_ARCH__ >= 900
    asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(block));
#endif
    return address;
  }

  std::uint32_t memory_, barrier_;
};

}  // namespace plumb::cuda
