// Loops over the outputs of a grid find where each lies: a thread takes an element, or a block a
// tile of elements.
#pragma once

#include "cuda_kernels/primitives/index.cuh"

namespace plumb::cuda {

/// The numbers that one thread or block takes: from `begin` on, `step` apart, below `end`.
struct Share {
  std::int64_t begin, step, end;
};

/// Calls `f(n, c, h, w)` for each number of the share, which is an index into a tensor of rank 4
/// whose inner extents are `c`, `h` and `w`, the last running fastest.
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

/// A thread takes each of `count` elements, in a one-dimensional grid of blocks of `block_threads`.
template <int block_threads, class Index, class F>
__device__ void for_each_element(std::int64_t count, const Divisor<Index>& c,
                                 const Divisor<Index>& h, const Divisor<Index>& w, const F& f) {
  for_each_of({std::int64_t{blockIdx.x} * block_threads + threadIdx.x,
               std::int64_t{gridDim.x} * block_threads, count},
              c, h, w, f);
}

/// A block takes each of `count` tiles. All threads of the block call `f`, which may hold barriers.
template <class Index, class F>
__device__ void for_each_tile(std::int64_t count, const Divisor<Index>& c, const Divisor<Index>& h,
                              const Divisor<Index>& w, const F& f) {
  for_each_of({blockIdx.x, gridDim.x, count}, c, h, w, f);
}

}  // namespace plumb::cuda
