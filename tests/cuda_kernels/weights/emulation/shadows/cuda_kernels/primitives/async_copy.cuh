// cp.async, emulated, with a fault that tests plant.
#pragma once

#include "cuda_kernels/fields/emulation/emulation.hpp"

namespace plumb_test::emulation {
/// Waits that let one group more be under way than they are asked to.
inline bool waits_too_little = false;
}  // namespace plumb_test::emulation

namespace plumb::cuda {

template <int bytes>
void copy_bytes_async(void* to_shared, const void* from, bool valid) {
  plumb_test::emulation::copy_async(to_shared, from, bytes, valid);
}
inline void commit_copies() { plumb_test::emulation::commit_copies(); }
template <int running>
void wait_for_copies() {
  plumb_test::emulation::wait_for_groups(running +
                                         (plumb_test::emulation::waits_too_little ? 1 : 0));
}

}  // namespace plumb::cuda
