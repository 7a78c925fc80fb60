// This header describes a convolution as interleaved.cu's warps see it, what the warps tell each
// other in shared memory, and a block's share of the work.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/packed_header.hpp"
#include "cuda_kernels/cost/interleaved.hpp"
#include "cuda_kernels/interleaved/interleaved_scheme.cuh"
#include "cuda_kernels/primitives/bulk_copy.cuh"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/primitives/mbarrier.cuh"

namespace plumb::cuda {

inline constexpr int met_bits = 3;  ///< that WindowFlags take

/// The control data lie in front of a block's shared memory.
struct InterleavedControl {
  Mbarrier full[2], empty[2];                        ///< stages of input
  Mbarrier output_full[interleaved_warpgroups][4];   ///< the rows of a warp are staged
  Mbarrier output_empty[interleaved_warpgroups][4];  ///< free for the next pass of a warp group
  CopyBarrier filters_full[max_filter_stages];       ///< stages of filters
  Mbarrier filters_empty[max_filter_stages];
  int exponent[2], flags[2];                 ///< of the tiles in the stages of input
  int2 stage_of[interleaved_warpgroups][4];  ///< exponent and flags of what is staged
  int met[3];                                ///< flags of three tiles in turn
  int largest;                               ///< bits of a tile's largest |x|
  int filter_flags, min_exponent, max_exponent;
  float filter_scales[interleaved_rows], filter_bias[interleaved_rows];
};
static_assert(sizeof(InterleavedControl) <= interleaved_control_bytes);

/// Channel blocks that have the same number of channels: their lines, and the offsets of a core
/// row's elements from its first.
struct DeviceChannelBlock {
  int channels, first_line, end_line;
  int taps_w_bits;  ///< log2 of the taps side by side
  int offsets[8];
};

template <class Of>
struct InterleavedParams {
  using Scheme = Of;
  using Stored = typename Scheme::Stored;
  using Roles = InterleavedRoles<Scheme>;
  static constexpr InterleavedElements elements = Scheme::elements;
  static constexpr int k_step_bytes = elements.k_step_bytes(),
                       k_tile_steps = elements.k_tile_steps();

  ConvShape<int> conv;
  const Stored *x, *w;  ///< w: dense
  int x_before;         ///< elements of an image's input that may lie in front of a tile's first
  Stored* y;
  Epilogue<Stored> epilogue;
  const char* packed;
  std::int64_t group_bytes;
  // These are the terms.
  DeviceChannelBlock channel_blocks[max_channel_blocks];
  int channel_block_count = 0;
  struct {
    std::uint8_t first_c, row_phase, column_phase;
  } phase_planes[max_phase_planes];
  /// Where a k step's core rows lie, as descriptors of products have it: the lower half is the
  /// first one's distance from a position's, in core rows, and the upper half how far the second
  /// one lies behind the first.
  std::uint32_t k_steps_at[max_interleaved_k_steps + k_tile_steps - 1];
  int chunks, chunk_channels, chunk_bytes;  ///< of channels; bytes of a chunk's packed filters
  int k_steps, stride_h, stride_w, groups, group_filters;
  int up_h, up_w, before_h, before_w;  ///< of backward data: outputs for each pixel of x, padding
  int spread, different_filters;       ///< as in InterleavedLayout
  // An epilogue warp's filters are so far apart, and begin, as its columns do, so far behind those
  // of the warp before.
  int warp_apart, warp_apart_bits, warp_filters, warp_columns;
  // These are the tiles.
  Divisor<int> pitch, phase_plane_rows, column_tiles, bands;
  int images, tile_rows, tile_columns, span, passes, lines, items;
  int x_rows, x_columns;  ///< at least those of a tile's input
  bool pairs;             ///< neighbouring outputs are aligned in pairs, each of one tile or none
  bool pixel_vectors;     ///< neighbouring filters are aligned in vectors of 16 bytes
  int k_tiles, filter_stages, filter_stage_bytes;
  int w_at, x_at, x_apart, low_apart, lines_at;  ///< bytes in shared memory
  int stretches[Roles::max_producer_warps +
                1];  ///< core rows where each producer warp's stretch begins

  /// `call` is that of an InterleavedConv's problem, and `dense` is this with dense filters.
  InterleavedParams(const ConvLaunch& call, const ConvProblem& dense,
                    const InterleavedLayout& layout, const InterleavedTiles& tile)
      : conv(dense),
        x(static_cast<const Stored*>(call.x)),
        w(reinterpret_cast<const Stored*>(static_cast<const char*>(call.filters) +
                                          layout.dense_at())),
        x_before(mirrored_reach(conv)),
        y(static_cast<Stored*>(call.y)),
        epilogue(call),
        packed(static_cast<const char*>(call.filters)),
        group_bytes(static_cast<std::int64_t>(layout.group_bytes())),
        chunks(layout.chunks),
        chunk_channels(layout.chunk_channels),
        chunk_bytes(layout.packed_k_steps * layout.k_step_bytes),
        k_steps(layout.k_steps),
        stride_h(layout.stride_h),
        stride_w(layout.stride_w),
        groups(layout.groups),
        group_filters(layout.group_filters),
        up_h(layout.taps_h.up()),
        up_w(layout.taps_w.up()),
        before_h(layout.taps_h.first - up_h * conv.top),
        before_w(layout.taps_w.first - up_w * conv.left),
        spread(layout.spread),
        different_filters(layout.different_filters()),
        warp_apart(spread > 1 ? 1 : interleaved_epilogue_warps),
        warp_apart_bits(std::countr_zero(static_cast<unsigned>(warp_apart))),
        warp_filters(spread > 1 ? 0 : 1),
        warp_columns(spread > 1 ? layout.columns : 0),
        pitch(tile.pitch),
        phase_plane_rows(tile.phase_plane_rows),
        column_tiles(tile.column_tiles),
        bands(tile.bands),
        images(tile.images),
        tile_rows(tile.rows),
        tile_columns(tile.columns),
        span(tile.span()),
        passes(tile.passes()),
        lines(static_cast<int>(layout.phase_planes.size()) * tile.images * tile.phase_plane_rows),
        items(static_cast<int>(tile.items(call.problem))),
        x_rows((tile.phase_plane_rows + 8) * layout.stride_h),
        x_columns((tile.pitch + 8) * layout.stride_w),
        pairs(tile.pairs(layout, call.problem) &&
              row_vector(y, call.problem.y_extents(), call.problem.y_strides, sizeof(Stored)) >= 2),
        pixel_vectors(layout.stores_pixels(call.problem) && tile.pitch % 2 == 0 &&
                      reinterpret_cast<std::uintptr_t>(y) % vector_bytes == 0),
        k_tiles(tile.k_tiles),
        filter_stages(tile.filter_stages),
        filter_stage_bytes(tile.filter_stage_bytes),
        w_at(interleaved_control_bytes + stage_bytes),
        x_at(w_at + static_cast<int>(tile.w_bytes())),
        x_apart(static_cast<int>(tile.x_bytes)),
        low_apart(x_apart / 2),
        lines_at(x_at + 2 * x_apart + slack_bytes) {
    const int phase_plane_lines = tile.images * tile.phase_plane_rows;
    for (std::size_t i = 0; i < layout.phase_planes.size(); ++i) {
      const PhasePlane& of = layout.phase_planes[i];
      const ChannelBlock& channel_block = layout.channel_blocks[of.channel_block];
      phase_planes[i] = {static_cast<std::uint8_t>(channel_block.first_c),
                         static_cast<std::uint8_t>(of.row_phase),
                         static_cast<std::uint8_t>(of.column_phase)};
      const int first_line = static_cast<int>(i) * phase_plane_lines;
      if (channel_block_count == 0 ||
          channel_blocks[channel_block_count - 1].channels != channel_block.channels)
        channel_blocks[channel_block_count++] = device_channel_block(channel_block, first_line);
      channel_blocks[channel_block_count - 1].end_line = first_line + phase_plane_lines;
    }
    const auto place = [&](int i) {
      const CoreRow& of = layout.core_rows[std::min<std::size_t>(i, layout.core_rows.size() - 1)];
      return of.phase_plane * tile.phase_plane_core_rows() + of.r / stride_h * tile.pitch +
             of.s / stride_w;
    };
    for (int k_step = 0; k_step < layout.packed_k_steps; ++k_step)
      k_steps_at[k_step] = static_cast<std::uint32_t>(
          place(2 * k_step) | (place(2 * k_step + 1) - place(2 * k_step)) << 16);
    share_out(layout, tile);
  }

  __device__ bool streams() const { return filter_stages > 1; }
  /// Returns where the outputs of a pass are staged. There is one stage, because input needs L1
  /// more than a second one is worth.
  __device__ float* staged() const {
    return reinterpret_cast<float*>(dynamic_shared() + interleaved_control_bytes);
  }

 private:
  /// Returns how far negative strides lead from an element, over the image and the padding in front
  /// of it, where a tile may begin. 32 bits hold the distance (fits_32_bits()).
  static int mirrored_reach(const ConvShape<int>& conv) {
    const auto reach = [](int step, int steps) { return step < 0 ? -step * steps : 0; };
    return reach(conv.x_step.n, conv.n - 1) + reach(conv.x_step.c, conv.group_c - 1) +
           reach(conv.x_step.h, conv.h - 1 + conv.top) +
           reach(conv.x_step.w, conv.w - 1 + conv.left);
  }

  /// Shares core rows out among the producer warps, in stretches that take equally long and are
  /// whole steps of a warp.
  void share_out(const InterleavedLayout& layout, const InterleavedTiles& tile) {
    const int warps = Roles::producer_warps(tile.streams());
    const int of_phase_plane = tile.phase_plane_core_rows(), all = lines * tile.pitch;
    const auto share = [&](const PhasePlane& of) {
      return core_row_share(layout.channel_blocks[of.channel_block], elements) * of_phase_plane;
    };
    double whole = 0, before = 0;
    for (const PhasePlane& of : layout.phase_planes) whole += share(of);
    std::fill(std::begin(stretches), std::end(stretches), all);
    stretches[0] = 0;
    for (int warp = 1, phase_plane = 0; warp < warps; ++warp) {
      const double wanted = whole * warp / warps;
      while (before + share(layout.phase_planes[phase_plane]) < wanted)
        before += share(layout.phase_planes[phase_plane++]);
      const double within =
          (wanted - before) / share(layout.phase_planes[phase_plane]) * of_phase_plane;
      const int core_rows = phase_plane * of_phase_plane + static_cast<int>(within);
      stretches[warp] = std::min(static_cast<int>(ceil_div(core_rows, 32)) * 32, all);
    }
  }

  DeviceChannelBlock device_channel_block(const ChannelBlock& channel_block, int first_line) const {
    DeviceChannelBlock made{channel_block.channels,
                            first_line,
                            first_line,
                            std::countr_zero(static_cast<unsigned>(channel_block.taps_w)),
                            {}};
    for (int e = 0; e < channel_block.channels * channel_block.taps_h * channel_block.taps_w; ++e) {
      const int tap = e / channel_block.channels;
      made.offsets[e] = e % channel_block.channels * conv.x_step.c +
                        tap / channel_block.taps_w * conv.x_step.h +
                        tap % channel_block.taps_w * conv.x_step.w;
    }
    return made;
  }
};

/// A team is the blocks that take the tiles of one group of filters.
struct InterleavedTeam {
  int number, members, first;  ///< its group, its blocks, and which of them this one is

  template <class Params>
  __device__ explicit InterleavedTeam(const Params& params) {
    const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
    const int teams = min(params.groups, blocks);
    number = block % teams, first = block / teams;
    members = (blocks - number - 1) / teams + 1;
  }
  /// Returns how many tiles this block has.
  template <class Params>
  __device__ int tiles(const Params& params) const {
    return first < params.items ? (params.items - first - 1) / members + 1 : 0;
  }
  /// Returns how many passes this block makes over all of its tiles.
  template <class Params>
  __device__ int passes(const Params& params) const {
    return tiles(params) * params.passes;
  }
};

/// A tile has images, and places where its outputs and its input begin.
struct InterleavedItem {
  int n, p, q, images, first_h, first_w;
  int first_c = 0;  ///< of the chunk of channels that is loaded

  template <class Params>
  __device__ InterleavedItem(const Params& params, int number, int rows, int columns) {
    const auto [above, column_tile] = params.column_tiles.divide(number);
    const auto [image_tile, band] = params.bands.divide(above);
    n = image_tile * params.images;
    p = band * params.tile_rows * rows;
    q = column_tile * params.tile_columns * columns * params.spread;
    images = min(params.images, params.conv.n - n);
    first_h = band * params.tile_rows * params.stride_h - params.conv.top;
    first_w = column_tile * params.tile_columns * params.stride_w - params.conv.left;
  }
};

/// Returns where a row of a warp's 16 is staged: of each four rows the middle two change places.
/// Then four rows that a warp stages at once, and two whose columns it writes beside each other,
/// meet no bank twice.
__host__ __device__ constexpr int staged_row(int row) {
  return (row & ~3) | (row & 1) << 1 | (row >> 1 & 1);
}

/// Where one column of an output position's outputs begins, which is in the first of its rows;
/// `beside` counts the position's columns.
struct OutputPosition {
  int n, p, q;
  int rows_left;  ///< of y from there on; 0: there is no output

  template <class Params>
  __device__ OutputPosition(const Params& params, const InterleavedItem& item, int number, int rows,
                            int columns, int beside) {
    const auto [line, column] = params.pitch.divide(number);
    const auto [image, row] = params.phase_plane_rows.divide(line);
    n = item.n + image, p = item.p + row * rows,
    q = item.q + column * columns * params.spread + beside;
    const bool exists = image < item.images && row < params.tile_rows &&
                        column < params.tile_columns && q < params.conv.q.value();
    rows_left = exists ? params.conv.p.value() - p : 0;
  }
};

}  // namespace plumb::cuda
