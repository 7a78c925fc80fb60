// Loops over what a grid makes, and where each piece of it lies: an element a thread, or a tile of
// elements a block.
#pragma once

#include "cuda_kernels/primitives/index.cuh"

namespace plumb::cuda {

/// Numbers that one thread or block takes: from `begin` on, `step` apart, below `end`.
struct Share {
  std::int64_t begin, step, end;
};

/// Calls `f(n, c, h, w)` for each number of the share, taken apart in a tensor of rank 4 whose
/// inner extents are `c`, `h` and `w`, the last running fastest.
template <class Index, class F>
__device__ void for_each_of(const Share& share, const Divisor<Index>& c, const Divisor<Index>& h,
                            const Divisor<Index>& w, const F& f) {
  for (std::int64_t number = share.begin; number < share.end; number += share.step) {
    const auto [rows, column] = w.divide(static_cast<Index>(number));
    const auto [planes, row] = h.divide(rows);
    const auto [image, plane] = c.divide(planes);
    f(image, plane, row, column);
  }
}

/// Each of `count` elements is a thread's, in a grid of lines of `block_threads`.
template <int block_threads, class Index, class F>
__device__ void for_each_element(std::int64_t count, const Divisor<Index>& c,
                                 const Divisor<Index>& h, const Divisor<Index>& w, const F& f) {
  for_each_of({std::int64_t{blockIdx.x} * block_threads + threadIdx.x,
               std::int64_t{gridDim.x} * block_threads, count},
              c, h, w, f);
}

/// Each of `count` tiles is a block's. All threads of the block call `f`, which may hold barriers.
template <class Index, class F>
__device__ void for_each_tile(std::int64_t count, const Divisor<Index>& c, const Divisor<Index>& h,
                              const Divisor<Index>& w, const F& f) {
  for_each_of({blockIdx.x, gridDim.x, count}, c, h, w, f);
}

}  // namespace plumb::cuda
