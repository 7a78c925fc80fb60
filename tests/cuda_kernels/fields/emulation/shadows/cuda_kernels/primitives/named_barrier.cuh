// Barriers of some of a block's warps, emulated.
#pragma once

#include <array>

#include "cuda_kernels/fields/emulation/emulation.hpp"

namespace plumb::cuda {

/// The barriers of each block of a cluster by their numbers, and the parity of the round that each
/// thread is in.
struct NamedBarriers {
  struct One {
    plumb_test::emulation::Barrier barrier;
    int threads = 0;
    std::array<unsigned char, 1024> parity{};
  };
  std::array<std::array<One, 16>, plumb_test::emulation::most_cluster_blocks> all;
};
inline NamedBarriers& named_barriers() {
  static NamedBarriers of;
  return of;
}

inline void meet_at(int barrier, int threads) {
  NamedBarriers::One& one =
      named_barriers()
          .all[plumb_test::emulation::block_of_cluster()][static_cast<std::size_t>(barrier)];
  if (one.threads != threads) one.barrier.init(threads), one.threads = threads;
  unsigned char& parity = one.parity[threadIdx.x];
  one.barrier.arrive();
  one.barrier.wait(parity);
  parity ^= 1;
}
template <int threads>
void meet(int barrier) {
  meet_at(barrier, threads);
}
template <int barrier>
void meet_threads(int threads) {
  meet_at(barrier, threads);
}

}  // namespace plumb::cuda
