// The input under a tile: staged as it is, then written to shared memory as products want it, with
// zeros where there is none.
#pragma once

#include "cuda_kernels/common/async_copy.cuh"
#include "cuda_kernels/common/bulk_copy.cuh"
#include "cuda_kernels/common/larger.cuh"
#include "cuda_kernels/common/scalar.cuh"
#include "cuda_kernels/common/split.hpp"
#include "cuda_kernels/common/window_shape.cuh"

namespace plumb::cuda {

/// What was met in a tile, that its outputs have to be looked at for.
enum WindowFlags : int {
  met_non_finite = 1,  ///< zeros of the product may have met Inf
  met_range = 2,       ///< values too far apart for split products
};

/// In front of a block's shared memory. What a tile finds out goes to places that take turns, so
/// that one can be cleared while the other is read.
struct WindowControl {
  CopyBarrier staged;
  int flags[2];
  int largest[2];  ///< bits of the largest |x|
  int filter_flags;
  int least_exponent, most_exponent;  ///< of the filters' scales
  float filter_scales[64];            ///< what sums are multiplied with to undo them
};
static_assert(sizeof(WindowControl) <= window_control_bytes);

constexpr int infinity_bits = 0x7f800000;
__device__ inline int magnitude_bits(float value) { return __float_as_int(value) & 0x7fffffff; }

/// Where elements of a tile are read from: the tensor, or its staged copy.
template <class Stored>
struct WindowSource {
  const Stored* x;  ///< first image, first channel, row 0
  int image, channel, row, column;
};

template <class Stored>
__device__ WindowSource<Stored> tensor_source(const WindowShape& shape, const WindowItem& item,
                                              const Stored* x) {
  const auto& step = shape.conv.x_step;
  const int plane = shape.channels.value() == 1 ? step.n : step.c;
  return {x + item.n * step.n, step.n, plane, step.h, step.w};
}

/// The rows of a band that lie in the image, where it is staged.
struct StagedRows {
  int begin, count;
  __device__ StagedRows(const WindowShape& shape, const WindowItem& item) {
    begin = shape.whole_images ? 0 : max(item.first_h, 0);
    const int end =
        shape.whole_images ? shape.conv.h : min(item.first_h + shape.x_rows.value(), shape.conv.h);
    count = max(end - begin, 0);
  }
};

template <class Stored>
__device__ WindowSource<Stored> staged_source(const WindowShape& shape, const WindowItem& item,
                                              const Stored* raw) {
  const StagedRows rows(shape, item);
  const int channel = rows.count * shape.conv.w;
  return {raw - rows.begin * shape.conv.w, channel * shape.channels.value(), channel, shape.conv.w,
          1};
}

/// Begins to copy a tile's input to `raw`. By the whole block, after a barrier behind the last
/// reading of `raw`.
template <class Stored>
__device__ void stage(const WindowShape& shape, const WindowItem& item, const Stored* x,
                      Stored* raw, CopyBarrier& barrier) {
  const StagedRows rows(shape, item);
  const int stretches = shape.whole_images ? 1 : shape.channels.value();
  const int elements =
      rows.count * shape.conv.w * (shape.whole_images ? shape.channels.value() * item.images : 1);
  const int bytes = elements * static_cast<int>(sizeof(Stored));
  const Stored* const from = x + item.n * shape.conv.x_step.n + rows.begin * shape.conv.x_step.h;
  if (bulk_copies && shape.staging == Staging::bulk) {
    if (threadIdx.x != 0) return;
    barrier.expect(stretches * bytes);
    for (int i = 0; i < stretches; ++i)
      if (bytes > 0) barrier.copy(raw + i * elements, from + i * shape.conv.x_step.c, bytes);
  } else {
    constexpr int sixteen = 16 / sizeof(Stored);
    for (int i = 0; i < stretches; ++i)
      for (int at = static_cast<int>(threadIdx.x) * sixteen; at < elements;
           at += window_threads * sixteen)
        copy_16_bytes_async(raw + i * elements + at, from + i * shape.conv.x_step.c + at);
  }
}

/// Two neighbours of a row of the tile, zero outside the image.
template <class Stored>
struct WindowPair {
  int to;  ///< element of the tile; negative beyond its end
  float first, second;

  __device__ WindowPair(const WindowShape& shape, const WindowItem& item,
                        const WindowSource<Stored>& source, int number, int end) {
    to = -1, first = 0, second = 0;
    if (number >= end) return;
    to = 2 * number;
    if (shape.contiguous) {
      const auto [plane, pair] = shape.plane_pairs.divide(number);
      const int at = item.first_h * shape.conv.w + 2 * pair;
      const int planes = item.images * shape.channels.value();
      if (plane < planes && at >= 0 && at < shape.conv.h * shape.conv.w)
        read(source.x + plane * source.channel + at);
      return;
    }
    const auto [tile_row, pair] = shape.pitch_pairs.divide(number);
    const auto [plane, row] = shape.x_rows.divide(tile_row);
    const auto [image, channel] = shape.channels.divide(plane);
    const int h = item.first_h + row, w = item.first_w + 2 * pair;
    if (image >= item.images || h < 0 || h >= shape.conv.h) return;
    const Stored* const from = source.x + image * source.image + channel * source.channel +
                               h * source.row + w * source.column;
    if (shape.pairs_aligned) {
      if (w >= 0 && w < shape.conv.w) read(from);
      return;
    }
    if (w >= 0 && w < shape.conv.w) first = convert<float>(from[0]);
    if (w + 1 >= 0 && w + 1 < shape.conv.w) second = convert<float>(from[source.column]);
  }

 private:
  __device__ void read(const Stored* from) {
    if constexpr (sizeof(Stored) == sizeof(float)) {
      const float2 both = *reinterpret_cast<const float2*>(from);
      first = both.x, second = both.y;
    } else {
      const std::uint32_t both = *reinterpret_cast<const std::uint32_t*>(from);
      const Stored* const halves = reinterpret_cast<const Stored*>(&both);
      first = convert<float>(halves[0]), second = convert<float>(halves[1]);
    }
  }
};

/// Calls `use(pair)` for all pairs of the tile, several of which are read at once.
template <class Stored, class Use>
__device__ void for_each_pair(const WindowShape& shape, const WindowItem& item,
                              const WindowSource<Stored>& source, Use&& use) {
  constexpr int at_once = 4;
  const int end =
      shape.images * shape.channels.value() * shape.x_rows.value() * shape.pitch_pairs.value();
  for (int first = static_cast<int>(threadIdx.x); first < end; first += at_once * window_threads) {
    const WindowPair<Stored> pairs[at_once] = {
        {shape, item, source, first, end},
        {shape, item, source, first + window_threads, end},
        {shape, item, source, first + 2 * window_threads, end},
        {shape, item, source, first + 3 * window_threads, end}};
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (pairs[i].to >= 0) use(pairs[i]);
  }
}

/// Calls `use(to, four)` for all fours of a tile whose planes are `in_fours`: contiguous, and
/// aligned in x and in the tile.
template <class Stored, class Use>
__device__ void for_each_four(const WindowShape& shape, const WindowItem& item,
                              const WindowSource<Stored>& source, Use&& use) {
  constexpr int at_once = 4;
  using Loaded = std::conditional_t<sizeof(Stored) == 4, uint4, uint2>;
  const int planes = item.images * shape.channels.value();
  const int end = shape.images * shape.channels.value() * shape.plane_fours.value();
  const int first_at = item.first_h * shape.conv.w, image = shape.conv.h * shape.conv.w;
  for (int first = static_cast<int>(threadIdx.x); first < end; first += at_once * window_threads) {
    Loaded loaded[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      loaded[i] = {};
      const auto [plane, four] = shape.plane_fours.divide(first + i * window_threads);
      const int at = first_at + 4 * four;
      if (plane < planes && at >= 0 && at < image)
        loaded[i] = *reinterpret_cast<const Loaded*>(source.x + plane * source.channel + at);
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const Stored* const of = reinterpret_cast<const Stored*>(&loaded[i]);
      const float four[] = {convert<float>(of[0]), convert<float>(of[1]), convert<float>(of[2]),
                            convert<float>(of[3])};
      const int number = first + i * window_threads;
      if (number < end) use(4 * number, four);
    }
  }
}

/// Calls `use(to, values)` for all of the tile, two or four neighbours at a time.
template <class Stored, class Use>
__device__ void for_each_run(const WindowShape& shape, const WindowItem& item,
                             const WindowSource<Stored>& source, Use&& use) {
  if (shape.in_fours)
    for_each_four(shape, item, source, use);
  else
    for_each_pair(shape, item, source, [&](const WindowPair<Stored>& pair) {
      const float two[] = {pair.first, pair.second};
      use(pair.to, two);
    });
}

/// The power of two that brings `largest` to between 2^14 and 2^15; its exponent.
__device__ inline int scale_exponent(int largest) {
  const int biased = max(largest >> 23, 1);
  return largest == 0 ? 0 : min(14 + 127 - biased, 126);
}
__device__ inline float power_of_two(int exponent) {
  return __int_as_float((exponent + 127) << 23);
}

/// Bits of the largest |x| of the tile go to `largest`.
template <class Stored>
__device__ void find_largest(const WindowShape& shape, const WindowItem& item,
                             const WindowSource<Stored>& source, int* largest) {
  int most = 0;
  for_each_run(shape, item, source, [&](int, const auto& values) {
#pragma unroll
    for (const float value : values) {
      // What is not finite has no say; it is met again.
      const int bits = magnitude_bits(value);
      if (bits < infinity_bits) most = max(most, bits);
    }
  });
  most = __reduce_max_sync(0xffffffff, most);
  if (threadIdx.x % 32 == 0 && most > 0) atomicMax(largest, most);
}

/// Writes the tile to `x_tile`, times `scale`, and says what was met.
template <class Scheme, class Stored>
__device__ int write_tile(const WindowShape& shape, const WindowItem& item,
                          const WindowSource<Stored>& source, float scale, char* x_tile) {
  float most = 0;
  bool small = false;
  for_each_run(shape, item, source, [&](int to, const auto& values) {
#pragma unroll
    for (const float value : values) {
      most = larger(most, fabsf(value));
      if constexpr (Scheme::scaled)
        small = small || (value != 0 && fabsf(value * scale) < split_least);
    }
    constexpr int part_bytes = Scheme::element_bytes;
    Scheme::put(x_tile + to * part_bytes, shape.part, values, scale);
  });
  return (most < infinity<float> ? 0 : met_non_finite) | (small ? met_range : 0);
}

}  // namespace plumb::cuda
