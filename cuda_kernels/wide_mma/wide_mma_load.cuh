// Copies of a step to a stage: rows of 128 bytes, 16 bytes by each cp.async, swizzled so that
// fragments meet no bank twice.
#pragma once

#include "cuda_kernels/primitives/async_copy.cuh"
#include "cuda_kernels/wide_mma/wide_mma_params.cuh"

namespace plumb::cuda {

/// Finds where the first taps of the tile's pixels lie. Of what fills the tile up no tap lies in
/// the image. The block's threads call it, and meet before they read.
template <WideMmaShape shape, class Params>
__device__ void find_places(const Params& params, const WideMmaShared<shape>& shared,
                            const WideMmaTile& tile) {
  constexpr int nowhere = -(1 << 30) - 1;  // from where no tap reaches the image
  for (int row = static_cast<int>(threadIdx.x); row < shape.m; row += shape.threads()) {
    WideMmaPlace& place = shared.place(row);
    const int number = tile.pixel + row;
    const WidePixel pixel = params.pixel(min(number, params.pixels - 1));
    place.offset = pixel.n * params.image_bytes;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const int at = pixel.at[i] * params.axis[i].stride - params.axis[i].before;
      place.offset += at * params.axis_bytes[i];
      place.at[i] = number < params.pixels ? at : nowhere;
    }
  }
}

/// Goes through the steps of a tile: channels are fastest, then s, r, t. A thread has one of the
/// eight units of every `rows_apart`th row.
template <class Params, WideMmaShape shape, WideMmaFault fault>
class WideMmaLoad {
  using Arithmetic = typename Params::Arithmetic;
  static constexpr int units = swizzle_row_bytes / 16, rows_apart = shape.threads() / units,
                       of_pixels = shape.m / rows_apart, of_filters = shape.n / rows_apart,
                       apart_bytes = rows_apart * swizzle_row_bytes;
  static_assert(rows_apart % swizzle_rows == 0 && shape.m % rows_apart == 0 &&
                shape.n % rows_apart == 0 && of_pixels <= 32);

 public:
  __device__ WideMmaLoad(const Params& params, const WideMmaShared<shape>& shared,
                         const WideMmaTile& tile)
      : params_(params),
        shared_(shared),
        row_(static_cast<int>(threadIdx.x) / units),
        unit_(static_cast<int>(threadIdx.x) % units),
        filters_left_(params.rows - tile.filter - row_),
        group_bytes_(std::int64_t{tile.group} * params.group_channels * Arithmetic::operand_bytes +
                     16 * unit_),
        filters_(params.filters +
                 (std::int64_t{tile.group} * params.rows + tile.filter + row_) * swizzle_row_bytes +
                 16 * unit_) {
    if (tile.begin > 0) skip(tile.begin);
    find_tap();
  }

  /// Begins the copies of the next step.
  __device__ void load(int stage) {
    const int at = row_ * swizzle_row_bytes + 16 * unit_;
    char* const pixels =
        shared_.stage(stage) + (fault == WideMmaFault::wrong_swizzle ? at : swizzle_128(at));
    // Zeros follow the group's last channel.
    const int bytes = min(max(left_, 0), 16);
#pragma unroll
    for (int i = 0; i < of_pixels; ++i)
      copy_16_bytes_async(pixels + i * apart_bytes, from_[i], (inside_ >> i & 1) != 0 ? bytes : 0);
    // Filters are packed as a stage has them.
    char* const filters = shared_.stage(stage) + shared_.filters_at + at;
#pragma unroll
    for (int i = 0; i < of_filters; ++i) {
      const bool is_there = i * rows_apart < filters_left_;
      copy_16_bytes_async(filters + i * apart_bytes,
                          is_there ? filters_ + i * apart_bytes : params_.filters,
                          is_there ? 16 : 0);
    }
    advance();
  }

 private:
  /// Has the first step be that of a split.
  __device__ void skip(int steps) {
    filters_ += std::int64_t{steps} * params_.all_rows * swizzle_row_bytes;
    const int number = steps / params_.channel_blocks, rows = number / params_.axis[0].taps;
    block_ = steps % params_.channel_blocks;
    tap_[0] = number % params_.axis[0].taps;
    tap_[1] = rows % params_.axis[1].taps, tap_[2] = rows / params_.axis[1].taps;
  }
  __device__ void advance() {
    filters_ += std::int64_t{params_.all_rows} * swizzle_row_bytes;
    left_ -= swizzle_row_bytes;
#pragma unroll
    for (int i = 0; i < of_pixels; ++i) from_[i] += swizzle_row_bytes;
    if (++block_ < params_.channel_blocks) return;
    block_ = 0;
    if (++tap_[0] == params_.axis[0].taps) {
      tap_[0] = 0;
      if (++tap_[1] == params_.axis[1].taps) tap_[1] = 0, ++tap_[2];
    }
    find_tap();
  }
  /// Finds where the block of channels under the tap lies for each pixel, and which pixels have it.
  __device__ void find_tap() {
    const int of_block = block_ * swizzle_row_bytes;
    left_ = params_.group_channels * Arithmetic::operand_bytes - 16 * unit_ - of_block;
    int behind[3];
    std::int64_t offset = group_bytes_ + of_block;
#pragma unroll
    for (int j = 0; j < 3; ++j) {
      const bool off = fault == WideMmaFault::wrong_tap && j == 0 && tap_[0] > 0;
      behind[j] = (tap_[j] + (off ? 1 : 0)) * params_.axis[j].dilation;
      offset += behind[j] * params_.axis_bytes[j];
    }
    inside_ = 0;
#pragma unroll
    for (int i = 0; i < of_pixels; ++i) {
      const WideMmaPlace& place = shared_.place(row_ + i * rows_apart);
      bool inside = true;
#pragma unroll
      for (int j = 0; j < 3; ++j)
        inside &= static_cast<unsigned>(place.at[j] + behind[j]) <
                  static_cast<unsigned>(params_.extent[j]);
      inside_ |= (inside ? 1u : 0u) << i;
      from_[i] = params_.from + (inside ? place.offset + offset : 0);
    }
  }

  const Params& params_;
  const WideMmaShared<shape>& shared_;
  int row_, unit_;
  int filters_left_;  ///< rows of the group from the thread's first one on
  std::int64_t group_bytes_;
  const char* filters_;  ///< of the next step
  const char* from_[of_pixels];
  unsigned inside_ = 0;  ///< a bit for each pixel
  int left_ = 0;         ///< bytes of the group's channels from the unit on
  int block_ = 0, tap_[3] = {};
};

}  // namespace plumb::cuda
