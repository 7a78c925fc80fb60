// A slice of the batch as the kernel for few terms sees it, and a block's shared memory.
#pragma once

#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/pointwise/pointwise_params.cuh"
#include "cuda_kernels/pointwise/pointwise_taps.hpp"
#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/primitives/index.cuh"

namespace plumb::cuda {

/// Strides of images in x or y, in elements.
struct TapsSteps {
  int n, c, d, h, w;

  TapsSteps(const Extents& extents, const Strides& strides)
      : n(step<int>(extents, strides, 0)),
        c(step<int>(extents, strides, 1)),
        d(extents.rank() == 5 ? step<int>(extents, strides, 2) : 0),
        h(step<int>(extents, strides, extents.rank() - 2)),
        w(step<int>(extents, strides, extents.rank() - 1)) {}
};

/// Where a term lies: elements of x from a pixel's first tap on, and along each axis. The last
/// three say whether it lies in the image.
struct alignas(16) TapsTerm {
  int offset, d, h, w;
};

/// An output's place in its image.
struct TapsPixel {
  int n, z, p, q;
};

/// The images: how pixels are numbered, and where their taps lie.
struct TapsImages {
  Divisor<int> q, p, z;
  TapsSteps x, y;
  int d, h, w;                       ///< extents of x
  int stride_d, stride_h, stride_w;  ///< to no second output: 0
  int front, top, left;
  int dilation_d, dilation_h, dilation_w;
  int t, r, s;  ///< taps
  int terms;    ///< of all channels
  int pixels;   ///< of all images
  bool padded;  ///< some taps may lie outside of the image

  TapsImages(const ConvProblem& of, int of_terms)
      : q(of.q()),
        p(of.p()),
        z(of.z()),
        x(of.x_extents(), of.x_strides),
        y(of.y_extents(), of.y_strides),
        d(static_cast<int>(of.d)),
        h(static_cast<int>(of.h)),
        w(static_cast<int>(of.w)),
        stride_d(of.z() > 1 ? static_cast<int>(of.stride.d) : 0),
        stride_h(of.p() > 1 ? static_cast<int>(of.stride.h) : 0),
        stride_w(of.q() > 1 ? static_cast<int>(of.stride.w) : 0),
        front(static_cast<int>(of.padding.front)),
        top(static_cast<int>(of.padding.top)),
        left(static_cast<int>(of.padding.left)),
        dilation_d(of.t > 1 ? static_cast<int>(of.dilation.d) : 0),
        dilation_h(of.r > 1 ? static_cast<int>(of.dilation.h) : 0),
        dilation_w(of.s > 1 ? static_cast<int>(of.dilation.w) : 0),
        t(static_cast<int>(of.t)),
        r(static_cast<int>(of.r)),
        s(static_cast<int>(of.s)),
        terms(of_terms),
        pixels(static_cast<int>(of.n * of.z() * of.p() * of.q())),
        padded(of.padding != Padding{}) {}

  __device__ TapsPixel place(int pixel) const {
    const auto [rows, column] = q.divide(pixel);
    const auto [planes, row] = p.divide(rows);
    const auto [image, plane] = z.divide(planes);
    return {image, plane, row, column};
  }
  __device__ int of_y(const TapsPixel& at) const {
    return at.n * y.n + at.z * y.d + at.p * y.h + at.q * y.w;
  }
  /// Where a pixel's first tap lies, as a term of which all others are so far away.
  __device__ TapsTerm first_tap(const TapsPixel& at) const {
    const int of_d = at.z * stride_d - front, of_h = at.p * stride_h - top,
              of_w = at.q * stride_w - left;
    return {at.n * x.n + of_d * x.d + of_h * x.h + of_w * x.w, of_d, of_h, of_w};
  }
  /// Terms are numbered through channels and taps, as filters have them.
  __device__ TapsTerm term(int number) const {
    const int column = number % s, row = number / s % r, plane = number / s / r % t,
              channel = number / s / r / t;
    const int of_d = plane * dilation_d, of_h = row * dilation_h, of_w = column * dilation_w;
    return {channel * x.c + of_d * x.d + of_h * x.h + of_w * x.w, of_d, of_h, of_w};
  }
  /// Without a branch, of which each would wait for the load behind the one before.
  __device__ bool has(const TapsTerm& first, const TapsTerm& term) const {
    const bool planes = static_cast<unsigned>(first.d + term.d) < static_cast<unsigned>(d),
               rows = static_cast<unsigned>(first.h + term.h) < static_cast<unsigned>(h),
               columns = static_cast<unsigned>(first.w + term.w) < static_cast<unsigned>(w);
    return planes & rows & columns;
  }
};

template <class Of>
struct TapsParams {
  using Arithmetic = Of;
  using Stored = typename Of::Stored;
  static constexpr int tile_pixels = taps_warps * Of::pixels;

  const Stored* x;
  const char* filters;  ///< packed
  const Stored* dense;  ///< the filters as they were
  Stored* y;
  Epilogue<Stored> epilogue;
  TapsImages images;
  int k, steps;  ///< filters; k steps that have terms
  int tiles;     ///< of the slice
  int chunks, chunk_bytes, group_chunks;
  Divisor<int> groups;
  int blocks;        ///< of a group
  Divisor<int> run;  ///< pixels of a TapsRun
  int run_step;
  int misaligned;  ///< elements from 16 aligned bytes to y
  TapsOutput output;
};

/// A block's shared memory.
template <class Params>
class TapsShared {
 public:
  __device__ explicit TapsShared(const Params& params)
      : after_filters_(params.group_chunks * params.chunk_bytes) {}

  __device__ char* filters() const { return dynamic_shared(); }
  /// Outputs of a chunk. There are two, so that one is written while the other is stored.
  __device__ char* stage(int number) const {
    return dynamic_shared() + after_filters_ + number * taps_stage_bytes;
  }
  __device__ TapsTerm* terms() const { return reinterpret_cast<TapsTerm*>(stage(2)); }
  /// In fp32, of all filters of the block: a lane reads those of its four filters together.
  __device__ float* biases() const { return reinterpret_cast<float*>(terms() + max_taps_terms); }

 private:
  int after_filters_;
};

/// What a block has: every `blocks`-th tile from `tile` on, and a group of chunks.
struct TapsShare {
  int first_chunk, chunks, tile;

  template <class Params>
  __device__ explicit TapsShare(const Params& params) {
    const auto [block, group] = params.groups.divide(static_cast<int>(blockIdx.x));
    first_chunk = group * params.group_chunks;
    chunks = min(params.group_chunks, params.chunks - first_chunk);
    tile = block;
  }
};

/// The i-th of a lane's pixels, of a warp's tile: rows g and g + 8 of m16 tile j are pixels 16 j +
/// 2 g and the next.
__device__ inline int taps_lane_pixel(int i, int lane) { return i / 2 * 16 + lane / 4 * 2 + i % 2; }

}  // namespace plumb::cuda
