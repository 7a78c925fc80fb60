// The products of a pass: the part of the filter in its Toeplitz matrices times the input under the
// tile, by wgmma with both operands in shared memory.
#pragma once

#include "cuda_kernels/primitives/split.hpp"
#include "cuda_kernels/primitives/wgmma.cuh"
#include "cuda_kernels/toeplitz/toeplitz_params.cuh"

namespace plumb::cuda {

/// The sums of a warpgroup: 64 outputs by 128 columns, as wgmma holds them. The products of low
/// parts, which are raised, have sums of their own.
template <int products>
struct ToeplitzSums {
  static constexpr int count = 4 * toeplitz_groups;
  float high[count] = {}, low[products == 3 ? count : 1] = {};

  /// Changes the scale of the sums by a power of two.
  __device__ void scale(int exponent) {
    const float factor = power_of_two(exponent);
#pragma unroll
    for (float& sum : high) sum *= factor;
    if constexpr (products == 3)
#pragma unroll
      for (float& sum : low) sum *= factor;
  }
  __device__ float operator[](int i) const {
    if constexpr (products == 3) return fmaf(low[i], 1 / split_raise, high[i]);
    return high[i];
  }
  /// Makes NaN of those below `least`.
  __device__ void spoil_small(float least) {
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (fabsf((*this)[i]) < least) high[i] = quiet_nan;
  }
};

/// Where the steps' operands lie: the first, and how far it is to the next step of a round and to
/// the next round, in units of 16 bytes.
struct ToeplitzSteps {
  std::uint32_t a, b;            ///< lower halves of descriptors
  std::uint32_t a_rows, b_rows;  ///< upper halves
  int a_step, b_step, a_next, b_next;
  int a_low, b_low;  ///< from high halves to low ones
  int steps, in_round;

  __device__ static std::uint64_t descriptor(std::uint32_t upper, std::uint32_t lower) {
    return std::uint64_t{upper} << 32 | lower;
  }
  template <ToeplitzMode mode>
  __device__ static ToeplitzSteps of(const ToeplitzParams& params, const char* filter,
                                     const char* tile) {
    const ToeplitzFilters& filters = params.filters;
    const int chunks = filters.chunks, line_bytes = params.line_bytes;
    ToeplitzSteps to{};
    int a_terms = 0, b_terms = 0;
    if constexpr (mode == ToeplitzMode::rows) {
      // A step is eight terms of a row and the same of the next; a round is all of two rows.
      const int row_bytes = chunks * toeplitz_core_bytes;
      a_terms = row_bytes, b_terms = line_bytes;
      to.a_rows = row_bytes / 16, to.b_rows = 8 * line_bytes / 16;
      to.a_step = toeplitz_core_bytes / 16, to.b_step = 1;
      to.in_round = chunks;
      to.a_next = 2 * row_bytes / 16, to.b_next = 2 * line_bytes / 16;
    } else if constexpr (mode == ToeplitzMode::planes) {
      // A step is eight terms of a row in a plane and in the next; a round is all of a row. Columns
      // of B are those of the next row after eight.
      a_terms = params.row_bytes, b_terms = params.lines / 2 * line_bytes;
      to.a_rows = params.row_bytes / 16, to.b_rows = line_bytes / 16;
      to.a_step = toeplitz_core_bytes / 16, to.b_step = 1;
      to.in_round = chunks;
      to.a_next = chunks * toeplitz_core_bytes / 16, to.b_next = line_bytes / 16;
    } else {
      // A step is 16 terms; after eight chunks a column's terms are those of the next column.
      const int place_bytes = params.line / 64 * 16;
      a_terms = toeplitz_core_bytes, b_terms = place_bytes;
      to.a_rows = toeplitz_core_bytes / 16, to.b_rows = line_bytes / 16;
      to.a_step = 2 * toeplitz_core_bytes / 16, to.b_step = 2 * place_bytes / 16;
      to.in_round = 4;
      to.a_next = 8 * toeplitz_core_bytes / 16, to.b_next = 1;
    }
    // From the last step of a round.
    to.a_next -= (to.in_round - 1) * to.a_step, to.b_next -= (to.in_round - 1) * to.b_step;
    to.steps = filters.steps();
    to.a_low = filters.half_bytes() / 16, to.b_low = 2 * params.line / 16;
    // Taken from one lane, so that compilers know them to be uniform.
    to.a = __shfl_sync(0xffffffff, wgmma_address(filter) | a_terms / 16 << 16, 0);
    to.b = __shfl_sync(0xffffffff, wgmma_address(tile) | b_terms / 16 << 16, 0);
    return to;
  }
};

/// Adds a pass.
template <int products, ToeplitzFault fault>
__device__ void add_pass(ToeplitzSums<products>& sums, const ToeplitzSteps& steps) {
  wgmma_settle(sums.high);
  if constexpr (products == 3) wgmma_settle(sums.low);
  wgmma_begin();
  std::uint32_t a = steps.a, b = steps.b;
  int in_round = steps.in_round;
#pragma unroll 1
  for (int step = 0; step < steps.steps; ++step) {
    if constexpr (products == 3)
      wgmma_strided<__half>(sums.low, steps.descriptor(steps.a_rows, a + steps.a_low),
                            steps.descriptor(steps.b_rows, b), 1);
    wgmma_strided<__half>(sums.high, steps.descriptor(steps.a_rows, a),
                          steps.descriptor(steps.b_rows, b), 1);
    if constexpr (products == 3 && fault != ToeplitzFault::lost_low)
      wgmma_strided<__half>(sums.low, steps.descriptor(steps.a_rows, a),
                            steps.descriptor(steps.b_rows, b + steps.b_low), 1);
    --in_round;
    a += in_round == 0 ? steps.a_next : steps.a_step;
    b += in_round == 0 ? steps.b_next : steps.b_step;
    in_round = in_round == 0 ? steps.in_round : in_round;
  }
  wgmma_commit();
  wgmma_end();
  wgmma_settle(sums.high);
  if constexpr (products == 3) wgmma_settle(sums.low);
}

}  // namespace plumb::cuda
