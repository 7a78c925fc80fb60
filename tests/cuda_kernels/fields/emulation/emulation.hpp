// Runs a kernel on the host: each thread of a block is a fiber, which goes until it meets a
// barrier. It finds what no result shows on every run of a GPU: shared memory that is read before
// it is written or waited for, copies that are not aligned, barriers that not all threads meet.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "cuda_kernels/primitives/tiled_map.hpp"

namespace plumb_test::emulation {

inline constexpr unsigned most_cluster_blocks = 8, most_block_warps = 32;

/// Runs `kernel` for each thread of each block. Shared memory is all ones at first, a NaN in every
/// type. Blocks of a cluster run at the same time, others one after the other. Throws
/// std::runtime_error where a block hangs or breaks a rule.
void run_grid(unsigned blocks, unsigned threads, std::size_t shared_bytes,
              const std::function<void()>& kernel, unsigned cluster = 1);

/// What follows is called by the kernel's threads.
char* shared_memory();
/// Waits for all threads of the cluster that have not ended.
void meet_cluster();
/// The block's number in its cluster.
unsigned block_of_cluster();
/// What lies in the shared memory of another block of the cluster where `own` lies in this one's.
/// Throws where the block has ended.
char* in_block(const void* own, unsigned block);
/// The warp's number among those of all blocks that run.
unsigned warp_of_cluster();
/// Begins a copy, which is made as late as it may be: when the thread waits for it. Without `valid`
/// it writes zeros.
void copy_async(void* to, const void* from, std::size_t bytes, bool valid);
void commit_copies();
/// Makes the copies of all groups but the last `running`.
void wait_for_groups(std::size_t running);
/// Makes all copies, those of no group too.
void wait_for_all();
/// Begins a store of the thread's from shared memory, whose bytes are read as late as they may be:
/// when the thread waits for that. `write` writes them.
void store_late(const void* from, std::function<void(const char*)> write);
void commit_stores();
/// Makes the stores of all groups but the last `running`.
void wait_for_stores(std::size_t running);

/// A barrier in shared memory that threads arrive at, and that counts the bytes of copies. These
/// are made as late as they may be: when a thread waits for them.
class Barrier {
 public:
  void init(int arrivals);
  void arrive();
  void wait(int parity);
  /// How many boxes have been copied since the program began.
  static long boxes();

 protected:
  void expect(int bytes) { bytes_ += bytes; }
  /// Begins a copy of so many bytes, which `make` makes.
  void copy_bytes(int bytes, std::function<void()> make) {
    bytes_ -= bytes;
    copies_.push_back(std::move(make));
  }
  void copy_box(void* to, const plumb::cuda::TiledMap& map, const char* address, int element_bytes,
                const int (&at)[plumb::cuda::TiledMap::rank]);

 private:
  bool complete();

  std::vector<std::function<void()>> copies_;
  int arrivals_ = 0, arrived_ = 0, bytes_ = 0, parity_ = 0;
};

/// One warp's D += A B of 16 x 8 by 8 x 8, with the fragments of primitives/mma_fp64.cuh.
void mma_fp64(double (&d)[4], const double (&a)[4], const double (&b)[2]);

}  // namespace plumb_test::emulation
