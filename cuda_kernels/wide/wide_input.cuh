// x of any strides becomes channels innermost in workspace, through tiles in shared memory: reads
// go along what lies side by side in x, writes along channels. Along folded axes that is im2col:
// pixels are those of the product, channels are under all taps of these axes. On the way operands
// are split where the arithmetic says so; their scale is that of the image's largest magnitude.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/primitives/dependent_launch.cuh"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/wide/wide_axes.hpp"
#include "cuda_kernels/wide/wide_halves.cuh"
#include "cuda_kernels/wide/wide_input.hpp"

namespace plumb::cuda {

/// What the repacking kernels are told.
struct WideInputParams {
  const void* x;
  char* packed;
  std::uint32_t* magnitudes;  ///< images × parts: words of WideMagnitudes
  int* scales;                ///< of the images: words of WideScale
  std::int64_t x_n, x_c;      ///< strides in elements
  WideImageAxes of_x;         ///< w, h, d; those that are not folded have no taps here
  WideFold fold;
  Divisor<int> w, h;                 ///< extents of the product
  int pixels, parts;                 ///< of an image
  int group_channels, own_channels;  ///< of a joined group: repacked, and those of the product
  int term_channels;                 ///< of a group that is joined, in the product
  int groups, joined, plane_channels;
  int bytes_of_channel;  ///< in the repacked x
  std::int64_t pixel_bytes;
  Divisor<int> pixel_tiles, channel_tiles;
  bool one_scale = false;  ///< all images have that of the largest magnitude of any
  bool along_channels;     ///< they lie closer together than pixels do
  bool pads = false;       ///< taps of folded axes may lie outside of the image
  int plane_vector;        ///< WideInput's

  WideInputParams(const ConvProblem& p, const WideFilters& filters, const WideInput& input,
                  const void* from)
      : WideInputParams(p, filters, input) {
    x = from;
    const ConvProblem product = wide_product(p, fold);
    w = Divisor<int>(product.w), h = Divisor<int>(product.h);
    const WideMapAxes axes(p);
    for (int i = 0; i < 3; ++i) {
      WideImageAxis& axis = of_x.of[i];
      if (fold.folds(i))
        pads = pads || axis.before > 0 || axes.axis[i].upper() + axes.axis[i].reach() > 0;
      else
        axis = {.extent = axis.extent,
                .taps = 1,
                .stride = 1,
                .dilation = 1,
                .before = 0,
                .x_step = axis.x_step};
    }
    along_channels = channels_lie_closer(product);
  }
  int tiles_of_image() const { return pixel_tiles.value() * channel_tiles.value(); }

 private:
  /// Compares the steps from a channel and from a pixel of the product to the next one.
  bool channels_lie_closer(const ConvProblem& product) const {
    // Pixels follow each other along the innermost axis that has several.
    const WideImageAxis& along = of_x.of[product.w > 1 ? 0 : product.h > 1 ? 1 : 2];
    const std::int64_t pixel = std::abs(along.x_step * along.stride);
    if (own_channels == 1) return false;
    // Of few channels the next but few lie under the next tap.
    constexpr int few = 8;
    std::int64_t channel = std::abs(x_c);
    for (int i = 2; i >= 0; --i)
      if (fold.channels <= few && fold.taps[i] > 1)
        channel = std::abs(of_x.of[i].x_step * of_x.of[i].dilation);
    return pixels == 1 || channel < pixel;
  }
  WideInputParams(const ConvProblem& p, const WideFilters& filters, const WideInput& input)
      : x_n(step<std::int64_t>(p.x_extents(), p.x_strides, 0)),
        x_c(step<std::int64_t>(p.x_extents(), p.x_strides, 1)),
        of_x(p),
        fold(filters.fold),
        pixels(input.pixels),
        parts(input.parts),
        group_channels(input.group_channels),
        own_channels(filters.groups.channels),
        term_channels(filters.groups.own_channels),
        groups(input.groups),
        joined(filters.groups.joined()),
        plane_channels(input.plane_channels()),
        bytes_of_channel(input.element_bytes),
        pixel_bytes(input.pixel_bytes()),
        pixel_tiles(input.pixel_tiles()),
        channel_tiles(input.channel_tiles()),
        plane_vector(input.plane_vector) {}
};

/// A tile of an image.
struct WideInputTile {
  int image, pixel, channel;  ///< numbers of the tile along pixels and channels

  template <class Params>
  __device__ WideInputTile(const Params& params, int number) {
    const auto [above, along_channels] = params.channel_tiles.divide(number);
    const auto [n, along_pixels] = params.pixel_tiles.divide(above);
    image = n, pixel = along_pixels, channel = along_channels;
  }
};

/// Where the pixels and channels of a tile lie in x, in shared memory.
struct WideInputPlaces {
  static constexpr std::int64_t nowhere = INT64_MIN;
  std::int64_t pixel[wide_input_pixels], channel[wide_input_channels];
  // Where taps may lie outside: a pixel's first tap, and how far behind it a channel's lies.
  int first[wide_input_pixels][3], tap[wide_input_channels][3];

  /// The block's threads call it, and meet before they read.
  __device__ void fill(const WideInputParams& params, const WideInputTile& tile) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < wide_input_pixels) {
      const int number = tile.pixel * wide_input_pixels + thread;
      const auto [above, column] = params.w.divide(number);
      const auto [plane, row] = params.h.divide(above);
      const int at[3] = {column, row, plane};
      std::int64_t offset = tile.image * params.x_n;
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        const WideImageAxis& axis = params.of_x.of[i];
        first[thread][i] = at[i] * axis.stride - axis.before;
        offset += first[thread][i] * axis.x_step;
      }
      pixel[thread] = number < params.pixels ? offset : nowhere;
    } else if (thread < wide_input_pixels + wide_input_channels) {
      const int i = thread - wide_input_pixels;
      const int number = tile.channel * wide_input_channels + i;
      const int group = number / params.group_channels, c = number % params.group_channels;
      const bool is_there = group < params.groups && c < params.own_channels;
      const int of_x = group * params.joined + c / params.term_channels;
      const WideTerm term = params.fold.term(c % params.term_channels);
      std::int64_t offset = (std::int64_t{of_x} * params.fold.channels + term.channel) * params.x_c;
#pragma unroll
      for (int j = 0; j < 3; ++j) {
        tap[i][j] = term.tap[j] * params.of_x.of[j].dilation;
        offset += tap[i][j] * params.of_x.of[j].x_step;
      }
      channel[i] = is_there ? offset : nowhere;
    }
  }
  /// Says whether a channel's tap lies in the image.
  __device__ bool is_inside(const WideInputParams& params, int of_pixel, int of_channel) const {
    bool inside = true;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const auto at = static_cast<unsigned>(first[of_pixel][i] + tap[of_channel][i]);
      inside = inside && at < static_cast<unsigned>(params.of_x.of[i].extent);
    }
    return inside;
  }
};

/// A thread's elements of a tile. Threads of a warp go along what lies closer together in x.
template <class Element>
struct WideInputShare {
  static constexpr int at_once = wide_input_threads / 64,
                       count = wide_input_pixels * wide_input_channels / wide_input_threads;
  Element of[count];

  struct Place {
    int pixel, channel;
  };
  __device__ static Place place(const WideInputParams& params, int i) {
    const int fast = static_cast<int>(threadIdx.x) % 64,
              slow = static_cast<int>(threadIdx.x) / 64 + at_once * i;
    return params.along_channels ? Place{slow, fast} : Place{fast, slow};
  }
  /// Reads them from x, and zeros where there is none.
  __device__ void read(const WideInputParams& params, const WideInputPlaces& places) {
    const auto* const x = static_cast<const Element*>(params.x);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const Place at = place(params, i);
      const std::int64_t pixel = places.pixel[at.pixel], channel = places.channel[at.channel];
      bool there = pixel != WideInputPlaces::nowhere && channel != WideInputPlaces::nowhere;
      if (params.pads) there = there && places.is_inside(params, at.pixel, at.channel);
      of[i] = there ? x[pixel + channel] : Element{0};
    }
  }
};

/// Returns the magnitudes of all of a block's values to all of its threads, which meet here.
__device__ inline WideMagnitudes block_magnitudes(WideMagnitudes of) {
  constexpr int warps = wide_input_threads / 32, none = 1 << 16;
  __shared__ std::uint32_t of_warp[warps];
  const int thread = static_cast<int>(threadIdx.x);
  of.most = __reduce_max_sync(0xffffffff, of.most);
  of.least = __reduce_min_sync(0xffffffff, of.least == 0 ? none : of.least) % none;
  if (thread % 32 == 0) of_warp[thread / 32] = of.word();
  __syncthreads();
#pragma unroll
  for (int i = 0; i < warps; ++i) of.add(WideMagnitudes(of_warp[i]));
  return of;
}

/// Finds the magnitudes of each part of an image: a block a part.
template <class Element>
__global__ void __launch_bounds__(wide_input_threads)
    look_at_wide_input(const __grid_constant__ WideInputParams params) {
  __shared__ WideInputPlaces places;
  const int image = static_cast<int>(blockIdx.x) / params.parts,
            part = static_cast<int>(blockIdx.x) % params.parts;
  const int tiles = params.pixel_tiles.value() * params.channel_tiles.value();
  WideLook look;
#pragma unroll 1
  for (int tile = part; tile < tiles; tile += params.parts) {
    WideInputTile at(params, tile);
    at.image = image;
    places.fill(params, at);
    __syncthreads();
    WideInputShare<Element> share;
    share.read(params, places);
#pragma unroll
    for (const float value : share.of) look.at(value);
    __syncthreads();
  }
  const WideMagnitudes all = block_magnitudes(look.found());
  if (threadIdx.x == 0) params.magnitudes[blockIdx.x] = all.word();
}

/// A tile in shared memory. Rows are so long that a warp meets each bank once along pixels.
template <class Element>
struct WideInputRows {
  static constexpr int pitch =
      wide_input_channels + (sizeof(Element) < 4 ? 4 / static_cast<int>(sizeof(Element)) : 1);
  alignas(16) Element of[wide_input_pixels * pitch];

  __device__ void write(const WideInputParams& params, const WideInputShare<Element>& share) {
#pragma unroll
    for (int i = 0; i < WideInputShare<Element>::count; ++i) {
      const auto at = share.place(params, i);
      of[at.pixel * pitch + at.channel] = share.of[i];
    }
  }
  /// The `i`th four bytes from a channel on, which is even where elements have two bytes.
  __device__ std::uint32_t word(int pixel, int channel, int i) const {
    return reinterpret_cast<const std::uint32_t*>(of + pixel * pitch + channel)[i];
  }
};

/// Writes 16 bytes of a pixel, and of split operands the 16 bytes of low halves. Floats become
/// halves, elements that are bits are moved.
template <class Element, int products>
__device__ void write_unit(const WideInputParams& params, const WideInputRows<Element>& rows,
                           int pixel, int channel, float scale, char* to) {
  std::uint32_t words[4], low[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if constexpr (!std::is_same_v<Element, float>) {
      words[i] = rows.word(pixel, channel, i);
    } else {
      const float* const values = rows.of + pixel * rows.pitch + channel + 2 * i;
      const WideHalves first(values[0], scale), second(values[1], scale);
      words[i] = first.high | second.high << 16, low[i] = first.low | second.low << 16;
    }
  *reinterpret_cast<uint4*>(to) = {words[0], words[1], words[2], words[3]};
  if constexpr (products > 1)
    *reinterpret_cast<uint4*>(to + params.pixel_bytes / 2) = {low[0], low[1], low[2], low[3]};
}

/// Leaves the magnitudes of all images' parts in the first. One block.
__global__ inline void __launch_bounds__(wide_input_threads)
    unite_wide_magnitudes(std::uint32_t* magnitudes, int count) {
  wait_for_kernel_before();
  WideMagnitudes all;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += wide_input_threads)
    all.add(WideMagnitudes(magnitudes[i]));
  all = block_magnitudes(all);
  if (threadIdx.x == 0) magnitudes[0] = all.word();
}

/// Returns the scale of an image. All threads of a block call it.
__device__ inline WideScale scale_of_image(const WideInputParams& params, int image) {
  const int thread = static_cast<int>(threadIdx.x), parts = params.one_scale ? 1 : params.parts,
            first = params.one_scale ? 0 : image * parts;
  return WideScale(
      block_magnitudes(WideMagnitudes(thread < parts ? params.magnitudes[first + thread] : 0)));
}

/// Repacks x: a block a tile. Elements are moved by their bits, or are floats that are scaled and,
/// for three products, split.
template <class Element, int products>
__global__ void __launch_bounds__(wide_input_threads)
    repack_wide_input(const __grid_constant__ WideInputParams params) {
  constexpr bool scales = std::is_same_v<Element, float>;
  constexpr int bytes = scales ? 2 : sizeof(Element), unit = 16 / bytes,
                units = wide_input_channels / unit;
  __shared__ WideInputPlaces places;
  __shared__ WideInputRows<Element> rows;
  wait_for_kernel_before();
  const int thread = static_cast<int>(threadIdx.x);
  const WideInputTile tile(params, static_cast<int>(blockIdx.x));
  places.fill(params, tile);
  __syncthreads();
  WideInputShare<Element> share;
  share.read(params, places);
  rows.write(params, share);
  float scale = 1;
  if constexpr (scales) {
    const WideScale of_image = scale_of_image(params, tile.image);
    scale = power_of_two(of_image.exponent());
    if (thread == 0 && tile.pixel == 0 && tile.channel == 0)
      params.scales[params.one_scale ? 0 : tile.image] = of_image.word;
  }
  __syncthreads();
#pragma unroll
  for (int i = thread; i < wide_input_pixels * units; i += wide_input_threads) {
    const int pixel = i / units, channel = i % units * unit;
    const int number = tile.pixel * wide_input_pixels + pixel,
              of_plane = tile.channel * wide_input_channels + channel;
    if (number >= params.pixels || of_plane >= params.plane_channels) continue;
    char* const to = params.packed +
                     (std::int64_t{tile.image} * params.pixels + number) * params.pixel_bytes +
                     std::int64_t{of_plane} * bytes;
    write_unit<Element, products>(params, rows, pixel, channel, scale, to);
  }
}

/// Where all images have one scale, leaves their magnitudes in the first.
inline void unite_magnitudes(const WideInputParams& params, int images, void* stream) {
  if (params.one_scale)
    Launch(stream, 1, wide_input_threads, 0)
        .early()(unite_wide_magnitudes, params.magnitudes, images * params.parts);
}

}  // namespace plumb::cuda
