// The input under a tile is copied to shared memory as it is while the tile before is multiplied.
// It is copied in stretches of x, rounded out to whole pieces of 16 bytes: images, or bands of a
// plane. Rows of narrower tiles are not worth it, because the copy engine takes 70 clocks for each
// copy.
#pragma once

#include <cstdint>

#include "cuda_kernels/few_channels/window_params.cuh"
#include "cuda_kernels/primitives/async_copy.cuh"
#include "cuda_kernels/primitives/bulk_copy.cuh"

namespace plumb::cuda {

/// Says what is staged for a tile, and where it lies. A stretch begins as far from a multiple of 16
/// bytes as it does in x.
template <class Stored>
struct StagedTile {
  static constexpr int sixteen = 16 / sizeof(Stored);
  const Stored* raw;
  int row, rows;   ///< of the image: the first row staged, and how many
  int first;       ///< element of x where the first stretch begins
  int planes;      ///< of all images
  int plane_step;  ///< elements from plane to plane in what is staged
  int x_step;      ///< elements from stretch to stretch in x
  int width;

  __device__ StagedTile(const WindowKernelParams& params, const WindowItem& item, const Stored* raw)
      : raw(raw), width(params.conv.w) {
    const ConvShape<int>& conv = params.conv;
    row = params.whole_images ? 0 : max(item.first_h, 0);
    rows = params.whole_images ? conv.h
                               : max(min(item.first_h + params.x_rows.value(), conv.h) - row, 0);
    first = item.first_plane * params.conv.x_step.n + row * conv.x_step.h;
    planes = item.images * params.channels.value();
    plane_step = params.whole_images ? conv.h * conv.w : params.raw_pitch;
    x_step = params.whole_images ? 0 : conv.x_step.c;
  }

  /// Returns where column 0 of a row is; rows are counted from the first one staged.
  __device__ const Stored* operator()(int plane, int staged_row) const {
    return raw + plane * plane_step + staged_row * width +
           ((first + plane * x_step) & (sixteen - 1));
  }
};

/// Begins to copy a tile's input to `raw`. The whole block calls it, after a barrier that follows
/// the last reading of `raw`.
template <class Stored>
__device__ void stage(const WindowKernelParams& params, const WindowItem& item, const Stored* x,
                      Stored* raw, CopyBarrier& barrier) {
  constexpr int sixteen = StagedTile<Stored>::sixteen;
  const StagedTile<Stored> tile(params, item, raw);
  const int stretches = params.whole_images ? 1 : tile.planes;
  const int length = tile.rows * tile.width * (params.whole_images ? tile.planes : 1);
  // A stretch is copied in whole pieces of 16 bytes, but for a piece that would end behind x: its
  // elements are copied one by one.
  const auto each = [&](auto&& use) {
    for (int i = 0; i < stretches; ++i) {
      const int begin = tile.first + i * tile.x_step, end = begin + length;
      const int from = begin & -sixteen, up = (end + sixteen - 1) & -sixteen;
      const int to = length == 0 ? from : up <= params.x_elements ? up : max(end & -sixteen, from);
      use(raw + i * params.raw_pitch, x + from, to - from, max(begin, to) - from,
          length == 0 ? 0 : end - from);
    }
  };
  const auto copy_rest = [](Stored* to, const Stored* from, int first, int last, int step) {
    for (int at = first; at < last; at += step) to[at] = from[at];
  };
  if (bulk_copies && params.staging == Staging::bulk) {
    if (threadIdx.x != 0) return;
    int elements = 0;
    each([&](Stored* to, const Stored* from, int whole, int rest, int end) {
      elements += whole;
      copy_rest(to, from, rest, end, 1);
    });
    barrier.expect(elements * static_cast<int>(sizeof(Stored)));
    each([&](Stored* to, const Stored* from, int whole, int, int) {
      if (whole > 0) barrier.copy(to, from, whole * static_cast<int>(sizeof(Stored)));
    });
  } else {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    each([&](Stored* to, const Stored* from, int whole, int rest, int end) {
      for (int at = thread * sixteen; at < whole; at += threads * sixteen)
        copy_16_bytes_async(to + at, from + at);
      copy_rest(to, from, rest + thread, end, threads);
    });
  }
}

}  // namespace plumb::cuda
