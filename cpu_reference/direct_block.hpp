// The parts of a direct convolution on the CPU that are compiled once for each instruction set
// (direct_block.inl); conv_direct.cpp cuts the problem and hands bands out to threads.
//
// A band is some output rows of one image and group. Its input is copied, as fp32, into planes in
// which every tap is a shift: with strides, the rows and columns of one remainder each make a plane
// of their own, so that the outputs of a band are one run of neighbours for every tap,
//
//   sums[k][i] = sum over terms of x[i + offset[term]] w[term][k],    i = p * pitch + q,
//
// and vectors run over pixels whatever the width of the image. At the end of each row are places
// that are no outputs, as many as the filter is wide; they are computed and dropped.
#pragma once

#include <cstdint>

#include "plumb/types.hpp"

namespace plumb {

/// A convolution as its bands see it; plain data, since sources for several instruction sets share
/// it. Steps are in elements.
struct DirectConv {
  DType dtype;
  bool relu, padded;
  const void* bias;  ///< null, or one for each output channel

  const void* x;
  std::int64_t h, w;
  std::int64_t x_n, x_c, x_h, x_w;

  const void* filters;
  std::int64_t w_k, w_c, w_r, w_s;
  std::int64_t group_c, r, s, group_k;

  void* y;
  std::int64_t p, q;
  std::int64_t y_n, y_k, y_p, y_q;

  Pair stride, dilation;
  std::int64_t top, left;

  std::int64_t phases_h, phases_w;  ///< planes of each channel
  std::int64_t pitch;               ///< of a plane's row
  std::int64_t plane;               ///< from one plane to the next
};

struct DirectBand {
  std::int64_t n, group;
  std::int64_t p, rows;  ///< output rows [p, p + rows)
};

/// One run of sums: those of `filters` filters, [filter][step], `count` of each, which is a
/// multiple of the longest vector; x may be read that far.
struct DirectRun {
  const float* x;
  const std::int64_t* offsets;  ///< of each term
  std::int64_t terms;
  const float* w;  ///< [term][filters]
  std::int64_t filters;
  float* sums;
  std::int64_t count, step;
};

struct DirectKernels {
  std::int64_t filters;  ///< of a run, at most: as many as registers make worth while
  /// planes[c][phase_h][phase_w][row][pitch] of the band's input; zeros around the image.
  void (*load)(const DirectConv&, const DirectBand&, float* planes);
  void (*sum)(const DirectRun&);
  /// Adds the bias, applies the activation, rounds once and writes filters [k, k + count) of the
  /// group to y.
  void (*store)(const DirectConv&, const DirectBand&, std::int64_t k, std::int64_t count,
                float* sums, std::int64_t step);
};

/// The most filters of a run anywhere; runs of 8, 4, 2 and 1 exist. Places of a run are a multiple
/// of the longest vector.
inline constexpr std::int64_t direct_filters = 8, direct_run_multiple = 16;

/// What was compiled for an instruction set; the library holds the baseline's on every machine,
/// the others' on x86-64.
extern const DirectKernels direct_kernels_baseline, direct_kernels_avx2, direct_kernels_avx512;

}  // namespace plumb
