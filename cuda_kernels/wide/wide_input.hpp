// x as the copy engine reads it: as it lies, or repacked to workspace with channels innermost, taps
// of folded axes among them: host code alone.
#pragma once

#include <cstdint>

#include "cuda_kernels/primitives/im2col_map.hpp"
#include "cuda_kernels/wide/wide_filters.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// A tile that a block of the repacking kernels moves through shared memory.
inline constexpr int wide_input_pixels = 64, wide_input_channels = 64, wide_input_threads = 256;
/// The most blocks that look for an image's largest magnitude, each at a part of its tiles.
inline constexpr int wide_most_parts = wide_input_threads;

/// How x with folded axes is repacked through a region of it in shared memory: some columns of some
/// lines of pixels at a time. Without columns it is not.
struct WideRegion {
  int lines = 0, columns = 0;  ///< of pixels of the product
  int rows = 0, span = 0;      ///< rows and columns of x under them
  int shared_bytes = 0;
  bool image_is_dense = false;  ///< so that its largest magnitude is looked for from end to end

  WideRegion() = default;
  /// Of one group, where a region fits; otherwise none.
  WideRegion(const ConvProblem& problem, const WideFilters& filters, int pixel_bytes);
};

/// The repacked x: N (D) H W of the product and for each pixel its channels of group after group,
/// each filled up with zeros to 16 bytes. Split operands have all high halves of a pixel before all
/// its low ones.
struct WideInput {
  /// Whether every launch repacks x. Where not, the copy engine reads x as it lies, if its address
  /// is aligned to 16 bytes, and otherwise x is repacked `images` at a time.
  bool repacks = false;
  int images = 1;          ///< that workspace has room for
  int pixels = 1;          ///< of an image
  int group_channels = 1;  ///< in the repacked x
  int groups = 1, planes = 1, element_bytes = 2;
  WideRegion region{};  ///< of folded axes
  int parts = 1;        ///< in which an image's largest magnitude is looked for
  /// Bytes of a channel's pixels that can be moved at once, where they lie side by side and x is
  /// aligned: 16, 8 or 4; 0: x is repacked by elements.
  int plane_vector = 0;

  WideInput() = default;
  WideInput(const ConvProblem& problem, const WideFilters& filters);
  /// Leaves room for a few images, for the few x that are not aligned.
  void be_seldom();
  int plane_channels() const { return groups * group_channels; }
  std::int64_t pixel_bytes() const {
    return std::int64_t{planes} * plane_channels() * element_bytes;
  }
  std::int64_t image_bytes() const { return pixels * pixel_bytes(); }
  int pixel_tiles() const { return (pixels + wide_input_pixels - 1) / wide_input_pixels; }
  int channel_tiles() const {
    return (plane_channels() + wide_input_channels - 1) / wide_input_channels;
  }

 private:
  WideInput(bool always, const ConvProblem& product, const WideFilters& filters);
};

/// Says whether the copy engine can read x as it lies, at an aligned address.
bool lies_for_copies(const ConvProblem& problem, const WideFilters& filters);

/// Pixels of a copy where planes are read as they lie: 128 bytes of a channel.
constexpr int wide_across_pixels(int element_bytes) { return swizzle_row_bytes / element_bytes; }
/// Says whether planes of x can be operands as they lie, at an aligned address: filters of one tap
/// and stride 1, elements that are not scaled, pixels of x side by side, and those of y as far
/// apart as each other.
bool lies_across(const ConvProblem& problem, const WideFilters& filters);
/// Returns such a problem with all pixels of an image in one row.
ConvProblem flat_problem(const ConvProblem& problem);
/// Returns what the copy engine is told to read the x of a flat problem by: pixels are the map's
/// channels, and channels its pixels.
Im2colMap wide_across_map(const ConvProblem& flat);

/// Returns what the copy engine is told to read x by, as it lies or repacked, without the number of
/// pixels of a copy. The problem is one that is supported.
Im2colMap wide_im2col(const ConvProblem& problem, const WideFilters& filters,
                      const WideInput* repacked);

}  // namespace plumb::cuda
