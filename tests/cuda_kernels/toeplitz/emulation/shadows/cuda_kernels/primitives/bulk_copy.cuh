// Barriers in shared memory and bulk copies, emulated.
#pragma once

#include "cuda_kernels/fields/emulation/mbarrier.hpp"

namespace plumb::cuda {

class CopyBarrier : public BulkCopyBarrier {
 public:
  void init() { Mbarrier::init(1); }
  void expect(int bytes) {
    if (bytes <= 0 || bytes >= 1 << 20) throw std::runtime_error("a round of too many bytes");
    arrive_at_bytes(bytes);
  }
};

inline void order_shared_writes() {}

}  // namespace plumb::cuda
