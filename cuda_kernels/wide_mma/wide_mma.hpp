// How a convolution of many channels is cut for the kernel in wide_mma_kernel.cuh: host code alone.
//
// The product is that of wide/ (wide/wide.hpp): rows are output pixels, columns filters, a step of
// the reduction the channels of 128 bytes under one tap. Packed filters and the repacked x are
// wide's own. README.md draws a stage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "cuda_kernels/primitives/host_device.hpp"
#include "cuda_kernels/wide/wide_filters.hpp"
#include "cuda_kernels/wide/wide_input.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// Where the first tap of one of a tile's pixels lies, as shared memory holds it.
struct WideMmaPlace {
  std::int64_t offset;  ///< in bytes
  int at[3];            ///< its coordinates: w, h, d
};

/// A tile of the product, which a block has, and how its warps share it out.
struct WideMmaShape {
  int m, n;              ///< pixels and filters
  int warps_m, warps_n;  ///< beside each other along pixels and along filters
  int stages;
  bool of_doubles = false;
  int blocks = 1;  ///< that registers of a multiprocessor shall suffice for

  PLUMB_HOST_DEVICE constexpr int threads() const { return 32 * warps_m * warps_n; }
  PLUMB_HOST_DEVICE constexpr int warp_rows() const { return m / warps_m; }
  PLUMB_HOST_DEVICE constexpr int warp_columns() const { return n / warps_n; }
  PLUMB_HOST_DEVICE constexpr int stage_bytes() const { return (m + n) * swizzle_row_bytes; }
  PLUMB_HOST_DEVICE constexpr int places_at() const { return stages * stage_bytes(); }
  /// Dynamic shared memory of a block: the stages, where outputs are staged later, and the places
  /// of its pixels.
  PLUMB_HOST_DEVICE constexpr int shared_bytes() const {
    return places_at() + m * static_cast<int>(sizeof(WideMmaPlace));
  }
};

/// There are kernels for these tiles: those of doubles for doubles alone, and the others for all
/// else. A warp has so many filters that what it stages of them are 128 bytes, and 32 pixels.
inline constexpr WideMmaShape wide_mma_shapes[] = {
    {.m = 128, .n = 128, .warps_m = 4, .warps_n = 2, .stages = 3},
    {.m = 128, .n = 64, .warps_m = 4, .warps_n = 1, .stages = 3, .blocks = 2},
    {.m = 64, .n = 64, .warps_m = 2, .warps_n = 2, .stages = 4, .of_doubles = true, .blocks = 2},
};
inline constexpr int wide_mma_shape_count = static_cast<int>(std::size(wide_mma_shapes));

constexpr bool has_wide_mma_shape(const WideClass& of, int number) {
  return wide_mma_shapes[number].of_doubles == (of.stored == DType::f64);
}

/// The tiles of some images.
struct WideMmaTiles {
  int shape = 0;            ///< of wide_mma_shapes
  int splits = 1;           ///< parts of the reduction, which blocks sum by themselves
  int m_tiles = 0;          ///< that cover the pixels
  int n_tiles = 0;          ///< that cover a group's filters
  int groups = 1;           ///< of filters
  std::int64_t pixels = 0;  ///< N Z P Q

  std::int64_t works() const { return std::int64_t{m_tiles} * n_tiles * groups * splits; }
  std::size_t sums_bytes(const WideFilters& filters) const;  ///< workspace of the splits
  void cover(std::int64_t pixels_of_images);                 ///< the pixels of some of the images
};

/// What is to be taken in place of what the model prefers, where it is not negative and not 0.
struct WideMmaChoice {
  int shape = -1, splits = 0;
};

struct WideMmaPlan {
  WideFilters filters;
  WideInput input;
  WideMmaTiles tiles;
  double seconds = 0;       ///< predicted
  std::size_t sums_at = 0;  ///< in workspace, behind the repacked x
  std::size_t workspace_bytes = 0;

  /// Plans a problem that is supported.
  WideMmaPlan(const ConvProblem& problem, const WideClass& of, const DeviceInfo& device,
              WideMmaChoice choice = {});
};

/// Says whether the kernel takes a problem in this arithmetic.
Support supports_wide_mma(const ConvProblem& problem, const WideClass& of,
                          const DeviceInfo& device);

/// Mistakes that tests plant in the kernel; `none` everywhere else.
enum class WideMmaFault {
  none,
  stale_stage,    ///< a tile's last step is the one before
  early,          ///< a step is multiplied before its last copies are waited for
  wrong_swizzle,  ///< pixels are copied without the swizzle
  wrong_tap,      ///< taps behind the first column are one column off
  lost_pixel,     ///< the last pixel is left out
  lost_split,     ///< the last split is not added
  unmasked,       ///< a pixel beyond the last is stored; for the host's memory alone
};

}  // namespace plumb::cuda
