// The order of writes to shared memory is that of the host; stores from it are emulated.
#pragma once

#include "cuda_kernels/fields/emulation/emulation.hpp"

namespace plumb::cuda {

inline void order_shared_writes() {}
inline void commit_stores() { plumb_test::emulation::commit_stores(); }
template <int running = 0>
void wait_for_store_reads() {
  plumb_test::emulation::wait_for_stores(running);
}

}  // namespace plumb::cuda
