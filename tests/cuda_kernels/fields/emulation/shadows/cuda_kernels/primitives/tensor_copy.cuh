// Barriers in shared memory and the copy engine, emulated.
#pragma once

#include "cuda_kernels/fields/emulation/emulation.hpp"
#include "cuda_kernels/primitives/tensor_map.hpp"

namespace plumb::cuda {

using Mbarrier = plumb_test::emulation::Barrier;

class StageBarrier : public Mbarrier {
 public:
  void arrive_expecting(int bytes) { expect(bytes), arrive(); }
  void copy_tiled(void* to, const CUtensorMap& map, const int (&at)[5]) {
    copy_box(to, map.of, map.address, map.element_bytes, at);
  }
};

inline void publish_barriers() {}

}  // namespace plumb::cuda
