// Planes of x, of which a channel's pixels lie side by side, become channels innermost in
// workspace at the memory's speed. Vectors of a channel's pixels go to a row in shared memory
// without passing through registers; a lane then takes a word of pixels from as many rows as a unit
// of 16 bytes has channels, and puts them in order.
#pragma once

#include <cstdint>

#include "cuda_kernels/primitives/async_copy.cuh"
#include "cuda_kernels/wide/wide_input.cuh"

namespace plumb::cuda {

/// A block's tile: 64 channels of 256 bytes of pixels.
inline constexpr int wide_plane_channels = wide_input_channels, wide_plane_row_bytes = 256;

/// What the kernel is told.
struct WidePlaneParams {
  const char* x;
  char* packed;
  std::int64_t x_n, x_c;  ///< strides in bytes
  int row_bytes;          ///< of all of a channel's pixels
  int channels, packed_channels;
  std::int64_t pixel_bytes;
  Divisor<int> pixel_tiles, channel_tiles;

  WidePlaneParams(const WideInputParams& of, int element_bytes)
      : x(static_cast<const char*>(of.x)),
        packed(of.packed),
        x_n(of.x_n * element_bytes),
        x_c(of.x_c * element_bytes),
        row_bytes(of.pixels * element_bytes),
        channels(of.own_channels),
        packed_channels(of.plane_channels),
        pixel_bytes(of.pixel_bytes),
        pixel_tiles((row_bytes + wide_plane_row_bytes - 1) / wide_plane_row_bytes),
        channel_tiles(of.channel_tiles) {}
  int tiles_of_image() const { return pixel_tiles.value() * channel_tiles.value(); }
};

/// Rows of a tile in shared memory, one for each channel. Lanes that read take one word each of
/// eight rows that are a unit of channels apart, and four words beside each other: 16-byte pieces
/// of a row are exchanged by the number of its unit, so that those lie in all banks.
struct WidePlaneRows {
  static constexpr int units = 8;
  alignas(16) char of[wide_plane_channels * wide_plane_row_bytes];

  template <int unit_channels>
  __device__ char* at(int channel, int byte) {
    const int piece = byte / 16 ^ channel / unit_channels % units;
    return of + channel * wide_plane_row_bytes + piece * 16 + byte % 16;
  }
};

/// Has the copies of a tile under way, `vector` bytes each, with zeros for what is not there.
template <int vector, int unit_channels>
__device__ void load_wide_planes(const WidePlaneParams& params, const WideInputTile& tile,
                                 WidePlaneRows& rows) {
  constexpr int vectors = wide_plane_row_bytes / vector,
                count = wide_plane_channels * vectors / wide_input_threads;
  const char* const image = params.x + tile.image * params.x_n;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int number = static_cast<int>(threadIdx.x) + i * wide_input_threads;
    const int channel = number / vectors, byte = number % vectors * vector;
    const int c = tile.channel * wide_plane_channels + channel,
              of_row = tile.pixel * wide_plane_row_bytes + byte;
    const bool there = c < params.channels && of_row < params.row_bytes;
    const char* const from = there ? image + c * params.x_c + of_row : params.x;
    char* const to = rows.at<unit_channels>(channel, byte);
    if constexpr (vector == 16)
      copy_16_bytes_async(to, from, there ? 16 : 0);
    else
      copy_bytes_async<vector>(to, from, there);
  }
  commit_copies();
}

/// Repacks x: a block a tile. `vector` is how many bytes of a channel's pixels are aligned.
template <class Element, int vector>
__global__ void __launch_bounds__(wide_input_threads)
    repack_wide_planes(const __grid_constant__ WidePlaneParams params) {
  constexpr int bytes = sizeof(Element), unit_channels = 16 / bytes, word_pixels = 4 / bytes,
                units = wide_plane_channels / unit_channels, words = wide_plane_row_bytes / 4;
  __shared__ WidePlaneRows rows;
  const WideInputTile tile(params, static_cast<int>(blockIdx.x));
  load_wide_planes<vector, unit_channels>(params, tile, rows);
  wait_for_copies<0>();
  __syncthreads();
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < units * words; i += wide_input_threads) {
    // Eight lanes write 128 bytes of a pixel.
    const int of_eight = i % 8, word = i / 8 % words, unit = i / (8 * words) * 8 + of_eight;
    const int pixel = (tile.pixel * words + word) * word_pixels,
              channel = tile.channel * wide_plane_channels + unit * unit_channels;
    if (pixel * bytes >= params.row_bytes || channel >= params.packed_channels) continue;
    std::uint32_t of_channel[unit_channels];
#pragma unroll
    for (int c = 0; c < unit_channels; ++c)
      of_channel[c] = *reinterpret_cast<const std::uint32_t*>(
          rows.at<unit_channels>(unit * unit_channels + c, word * 4));
    char* const to =
        params.packed +
        (std::int64_t{tile.image} * (params.row_bytes / bytes) + pixel) * params.pixel_bytes +
        std::int64_t{channel} * bytes;
#pragma unroll
    for (int j = 0; j < word_pixels; ++j) {
      // The channel's pixel j of the word.
      const auto half = [&](int c) { return of_channel[c] >> 16 * j & 0xffff; };
      std::uint32_t of_pixel[4];
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if constexpr (bytes == 2)
          of_pixel[k] = half(2 * k) | half(2 * k + 1) << 16;
        else
          of_pixel[k] = of_channel[k];
      *reinterpret_cast<uint4*>(to + j * params.pixel_bytes) = {of_pixel[0], of_pixel[1],
                                                                of_pixel[2], of_pixel[3]};
    }
  }
}

/// Repacks so many images, where planned and x is aligned; otherwise returns false.
template <class Element>
bool repack_planes(const WideInputParams& input, int images, void* stream) {
  if (input.plane_vector == 0) return false;
  const WidePlaneParams params(input, sizeof(Element));
  const auto blocks = static_cast<unsigned>(std::int64_t{images} * params.tiles_of_image());
  const auto address = reinterpret_cast<std::uintptr_t>(input.x);
  const auto launch = [&]<int vector>() {
    if (input.plane_vector < vector || address % vector != 0) return false;
    Launch(stream, blocks, wide_input_threads, 0)(repack_wide_planes<Element, vector>, params);
    return true;
  };
  return launch.template operator()<16>() || launch.template operator()<8>() ||
         launch.template operator()<4>();
}

}  // namespace plumb::cuda
