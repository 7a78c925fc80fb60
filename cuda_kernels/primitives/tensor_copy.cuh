// The copy engine fills stages of shared memory (PTX cp.async.bulk.tensor, sm_90).
// The barrier of a stage counts the bytes, all of them, where part of a box lies outside the tensor
// too.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda_kernels/primitives/mbarrier.cuh"

namespace plumb::cuda {

/// The full barrier of a pipeline stage: threads arrive, and copies complete their bytes.
class StageBarrier : public Mbarrier {
 public:
  /// Arrives, and makes the round wait for so many bytes besides.
  __device__ void arrive_expecting(int bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
                 "r"(bytes)
                 : "memory");
#endif
  }
  /// Begins a copy of neighbouring bytes. Addresses and `bytes` are multiples of 16.
  __device__ void copy(void* to, const void* from, int bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(address())
        : "memory");
#endif
  }
  /// Begins a copy of a column of pixels: from channel `c` on, from the pixel at w, h, d, n of the
  /// map's box on, each moved by the offsets of a tap. `axes` are those of the map, and the
  /// coordinates of others are not looked at.
  __device__ void copy_im2col(void* to, const CUtensorMap& map, int axes, int c, const int (&at)[3],
                              int n, const int (&offset)[3]) {
#if __CUDA_ARCH__ >= 900
    const auto w = static_cast<std::uint16_t>(offset[0]), h = static_cast<std::uint16_t>(offset[1]),
               d = static_cast<std::uint16_t>(offset[2]);
    if (axes == 2)
      asm volatile(
          "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
          "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(shared_address(to)),
          "l"(&map), "r"(address()), "r"(c), "r"(at[0]), "r"(at[1]), "r"(n), "h"(w), "h"(h)
          : "memory");
    else if (axes == 1)
      asm volatile(
          "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
          "[%0], [%1, {%3, %4, %5}], [%2], {%6};" ::"r"(shared_address(to)),
          "l"(&map), "r"(address()), "r"(c), "r"(at[0]), "r"(n), "h"(w)
          : "memory");
    else
      asm volatile(
          "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
          "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(shared_address(to)),
          "l"(&map), "r"(address()), "r"(c), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(n), "h"(w),
          "h"(h), "h"(d)
          : "memory");
#endif
  }

  /// Begins a copy of the map's box from `at` on, the coordinates of its five axes, of which the
  /// first is at a multiple of 16 bytes.
  __device__ void copy_tiled(void* to, const CUtensorMap& map, const int (&at)[5]) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared_address(to)),
        "l"(&map), "r"(address()), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
        : "memory");
#endif
  }

 private:
  __device__ static std::uint32_t shared_address(const void* shared) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  }
};

/// Begins a store of the map's box from `at` on; what lies outside the tensor is not stored. A
/// single thread calls it, as bulk_copy.cuh's bulk_store().
__device__ inline void store_tiled(const CUtensorMap& map, const int (&at)[5], const void* from) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4, %5}], "
      "[%6];" ::"l"(&map),
      "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]),
      "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(from)))
      : "memory");
#endif
}

/// Makes the barriers' first state visible to the copy engine. Who has called init() calls it,
/// before a barrier of the block.
__device__ inline void publish_barriers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
/// Loads a tensor map ahead of its first copy.
__device__ inline void prefetch_map(const CUtensorMap& map) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

}  // namespace plumb::cuda
