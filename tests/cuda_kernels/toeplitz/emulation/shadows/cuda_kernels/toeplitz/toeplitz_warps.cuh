// Barriers of some of a block's warps, emulated. Registers are the host compiler's own affair.
#pragma once

#include <array>

#include "cuda_kernels/fields/emulation/emulation.hpp"

namespace plumb::cuda {

/// The barriers of a block by their numbers, and the parity of the round that each thread is in.
struct NamedBarriers {
  struct One {
    plumb_test::emulation::Barrier barrier;
    int threads = 0;
    std::array<unsigned char, 1024> parity{};
  };
  std::array<One, 16> all;
};
inline NamedBarriers& named_barriers() {
  static NamedBarriers of;
  return of;
}

template <int threads>
void meet(int barrier) {
  NamedBarriers::One& one = named_barriers().all[static_cast<std::size_t>(barrier)];
  if (one.threads != threads) one.barrier.init(threads), one.threads = threads;
  unsigned char& parity = one.parity[threadIdx.x];
  one.barrier.arrive();
  one.barrier.wait(parity);
  parity ^= 1;
}

template <int registers>
void give_registers() {}
template <int registers>
void take_registers() {}

}  // namespace plumb::cuda
