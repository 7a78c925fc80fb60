// This header says what interleaved_kernel.cuh multiplies, and for which tensors, and gives a
// block's warps their roles: two consumer warp groups multiply, four epilogue warps store their
// sums to y, and four or eight producer warps load the input of the next tile (one fewer where the
// last one loads filters that stream).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda_kernels/interleaved/interleaved.hpp"
#include "cuda_kernels/interleaved/interleaved_warps.cuh"

namespace plumb::cuda {

/// Registers of a thread, by its role.
struct RoleRegisters {
  int consumer, epilogue, producer;
};

/// fp32 becomes two fp16, and a k step three products (SplitWindows).
struct SplitCoreRows {
  using Stored = float;
  using Half = __half;
  static constexpr bool scaled = true;
  static constexpr RoleRegisters registers{160, 64, 128};
  static constexpr InterleavedElements elements{.parts = 2, .stored_bytes = 4};
};

/// Tensors of halves are multiplied as they are, in one product.
template <class Of>
struct HalfCoreRows {
  using Stored = Of;
  using Half = Of;
  static constexpr bool scaled = false;
  static constexpr RoleRegisters registers{96, 80, 104};
  static constexpr InterleavedElements elements{.parts = 1, .stored_bytes = 2};
};

/// fp32 is scaled and rounded to fp16, and multiplied in one product (ScaledWindows).
struct ScaledCoreRows {
  using Stored = float;
  using Half = __half;
  static constexpr bool scaled = true;
  static constexpr RoleRegisters registers{96, 64, 112};
  static constexpr InterleavedElements elements{.parts = 1, .stored_bytes = 4};
};

/// Returns where a filter of a group is in a product's rows. Every fourth filter is in the same
/// sixteen rows, which one warp stores, so that each of the four warps has as many when filters are
/// few.
__device__ constexpr int product_filter(int of_group, int group_filters) {
  return of_group % interleaved_epilogue_warps * (group_filters / interleaved_epilogue_warps) +
         of_group / interleaved_epilogue_warps;
}

/// A block's threads by their roles, and the registers of each role.
template <class Scheme>
struct InterleavedRoles {
  static constexpr bool split = Scheme::elements.parts == 2;
  /// The sums of split products leave registers for four producer warps.
  static constexpr int max_producer_warps = split ? 4 : 8;
  static constexpr int first_epilogue = interleaved_warpgroups * 128;
  static constexpr int first_producer = first_epilogue + interleaved_epilogue_warps * 32;
  static constexpr int threads = first_producer + max_producer_warps * 32;
  static constexpr int begin_registers = 65536 / threads / 8 * 8;
  static constexpr RoleRegisters registers = Scheme::registers;
  static_assert(interleaved_warpgroups * 128 * registers.consumer + 128 * registers.epilogue +
                    max_producer_warps * 32 * registers.producer <=
                threads * begin_registers);

  /// Returns how many producer warps load input.
  __host__ __device__ static int producer_warps(bool streams) {
    return streams ? max_producer_warps - 1 : max_producer_warps;
  }
  __device__ static int producer() { return static_cast<int>(threadIdx.x) - first_producer; }
  __device__ static void sync_producers(bool streams) {
    meet_threads<1>(producer_warps(streams) * 32);
  }
};

}  // namespace plumb::cuda
