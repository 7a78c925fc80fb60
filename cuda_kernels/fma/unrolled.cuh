// For each group the convolution is the product of the filters, a matrix of K/G rows and C/G R S
// columns, and the unrolled input, C/G R S rows and N P Q columns. The elements of both matrices
// are found here.
#pragma once

#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {

/// The number of tiles of the outputs along each direction: filters of a group, groups, pixels.
/// Tiles are numbered in this order, the first running fastest.
struct TileCounts {
  std::int64_t filters, groups, pixels;

  TileCounts(const ConvProblem& problem, std::int64_t filters_of_tile, std::int64_t pixels_of_tile)
      : filters(ceil_div(problem.k / problem.groups, filters_of_tile)),
        groups(problem.groups),
        pixels(ceil_div(problem.n * problem.p() * problem.q(), pixels_of_tile)) {}
  TileCounts(const ConvProblem& problem, std::int64_t tile) : TileCounts(problem, tile, tile) {}
  std::int64_t all() const { return filters * groups * pixels; }
};

/// What a thread keeps of the pixel (n, p, q) whose column it unrolls or computes.
template <class Index>
struct Pixel {
  Index n, p, q;
  Index first_h, first_w;  ///< where the filter's first tap lies

  __device__ Pixel(const ConvShape<Index>& shape, Index column) {
    const auto [rows, q_of_row] = shape.q.divide(column);
    const auto [image, p_of_image] = shape.p.divide(rows);
    n = image;
    p = p_of_image;
    q = q_of_row;
    first_h = p * shape.stride_h - shape.top;
    first_w = q * shape.stride_w - shape.left;
  }
};

/// Returns the element of the unrolled input that meets `term` at the pixel; it is zero in the
/// padding.
template <class Accumulate, class Stored, class Index>
__device__ Accumulate unrolled(const ConvShape<Index>& shape, const Stored* x,
                               const Pixel<Index>& pixel, Index term) {
  const auto [filter_rows, s] = shape.s.divide(term);
  const auto [c, r] = shape.r.divide(filter_rows);
  const Index h = pixel.first_h + r * shape.dilation_h.value();
  const Index w = pixel.first_w + s * shape.dilation_w.value();
  if (h < 0 || h >= shape.h || w < 0 || w >= shape.w) return 0;
  return convert<Accumulate>(x[c * shape.x_step.c + h * shape.x_step.h + w * shape.x_step.w]);
}

/// Returns where `term` lies in a filter.
template <class Index>
__device__ Index filter_offset(const ConvShape<Index>& shape, Index term) {
  const FilterSteps<Index>& step = shape.w_step;
  if (step.is_matrix) return term * step.term;
  const auto [filter_rows, s] = shape.s.divide(term);
  const auto [c, r] = shape.r.divide(filter_rows);
  return c * step.c + r * step.r + s * step.s;
}

/// Launches the product with square tiles, a block for each. `kernel(S{}, Index{})` returns the
/// kernel for tensors stored as S, one of `Stored`, and for offsets of type Index.
template <int tile, class... Stored, class KernelOf>
void launch_product(const ConvLaunch& call, dim3 threads, KernelOf&& kernel,
                    std::source_location where = std::source_location::current()) {
  const ConvProblem& problem = call.problem;
  const TileCounts tiles(problem, tile);
  const bool narrow = fits_32_bits(problem) && static_cast<double>(tiles.all()) < index32_limit;
  with_stored<Stored...>(problem.dtype, [&]<class S>(S) {
    with_index(narrow, [&]<class Index>(Index) {
      Launch(call.native_queue, blocks_for(tiles.all(), 1), threads, 0, where)(
          kernel(S{}, Index{}), ConvShape<Index>(problem), static_cast<const S*>(call.x),
          static_cast<const S*>(call.w), static_cast<S*>(call.y), Epilogue<S>(call),
          static_cast<Index>(problem.n * problem.p() * problem.q()), Divisor<Index>(tiles.filters),
          Divisor<Index>(tiles.groups), tiles.all());
    });
  });
}

}  // namespace plumb::cuda
