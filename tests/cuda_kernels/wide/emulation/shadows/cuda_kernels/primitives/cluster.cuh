// Clusters of blocks, emulated.
#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "cuda_kernels/primitives/tensor_copy.cuh"

namespace plumb::cuda {

inline void meet_cluster() { plumb_test::emulation::meet_cluster(); }

class SentBarrier : public StageBarrier {
 public:
  void wait_for_blocks(int parity) { wait(parity); }

 private:
  friend class ClusterMemory;
};

/// What is sent comes as late as it may, when the barrier is waited for; until then the memory has
/// NaN, as soon as it is sent, and nobody may write to it.
class ClusterMemory {
 public:
  ClusterMemory(const void* memory, SentBarrier& counts, int block)
      : memory_(plumb_test::emulation::in_block(memory, static_cast<unsigned>(block))),
        barrier_(reinterpret_cast<SentBarrier*>(
            plumb_test::emulation::in_block(&counts, static_cast<unsigned>(block)))) {
    if (reinterpret_cast<std::uintptr_t>(barrier_->of_) == ~std::uintptr_t{0})
      throw std::runtime_error("another block has not set its barrier up yet");
  }
  void send(int at, const float4& of) const {
    if (reinterpret_cast<std::uintptr_t>(memory_ + at) % sizeof(of) != 0)
      throw std::runtime_error("what is sent is not aligned to 16 bytes");
    std::memset(memory_ + at, 0xff, sizeof(of));
    barrier_->of_->copy_bytes(sizeof(of), [to = memory_ + at, of] {
      if (std::count(to, to + sizeof(of), '\xff') != sizeof(of))
        throw std::runtime_error("memory is written to that another block sends to");
      std::memcpy(to, &of, sizeof(of));
    });
  }

 private:
  char* memory_;
  SentBarrier* barrier_;
};

}  // namespace plumb::cuda
