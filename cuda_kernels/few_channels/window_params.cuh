// This header describes a problem and its tiles as the kernels of windows see them, and a block's
// share of the work.
#pragma once

#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/few_channels/window_products.cuh"
#include "cuda_kernels/few_channels/windows.hpp"

namespace plumb::cuda {

struct WindowKernelParams {
  /// Of a plane (plane_of()); n is the planes of y of a volume, and steps along n are from plane to
  /// plane. Constants of the planes elsewhere cost kernels registers.
  ConvShape<int> conv;
  // These are as in WindowDepth, and the elements from a volume to the next and from a tap to the
  // next.
  int planes, plane_stride, plane_step, planes_before, taps;
  int x_volume, y_volume, w_tap;
  // These are products of them: from a plane of x to the next that is loaded, and from one plane of
  // a tile whose planes are `in_fours` to the next.
  int x_plane_step, x_next_plane;
  // These are the terms.
  int shifts, segments, segment_rows;
  int segment_bits;  ///< log2 of a segment's columns: 2, 4 or 8
  int second, pair;  ///< elements from a channel's first segment to its second and third
  // These are the tiles.
  int images, pitch, plane, channel_k_steps;
  int image_step;        ///< elements from the planes of one image of a tile to those of the next
  int product_channels;  ///< as product_channels()
  int row_step, strip_step;  ///< elements from one row of outputs, and strip, to the next
  Divisor<int> windows, strips, x_rows, pitch_pairs, plane_fours, channels;
  Divisor<int> column_tiles, bands, image_tiles;
  // Filters lie packed in global memory.
  const char* packed = nullptr;
  std::int64_t packed_group_bytes = 0;
  // These are set where filters stream.
  bool bulk_filters = false;  ///< as in WindowTiles
  int k_steps = 0, k_tile_steps = 0, k_tile_strips = 0, k_tiles = 1, filter_stages = 1;
  int filter_strips = 0, filter_strip_length = 1, filter_strip_step = 1;  ///< as in FilterStrips
  Divisor<int> parities{1}, starts{1};
  Divisor<int> row_terms{1};  ///< pairs in a filter's row
  int items, filter_groups, group_filters;
  Zeros zeros;
  // These are offsets in shared memory, in bytes: of the input, of where it is staged, of where
  // outputs are gathered and of the table of pairs.
  int x_at, raw_at, y_at, table_at;
  int x_apart = 0;     ///< bytes from one place of tiles to the other; 0: there is one place
  int row_lanes_bits;  ///< log2 of the lanes that share a row of the tile's input
  // These follow from other fields, and are computed once for all tiles: the rows and elements of
  // all planes, and the rows that a block takes at once.
  int tile_rows, tile_elements, rows_at_once;
  // Outputs are counted in elements.
  int y_pitch, y_row_pitch;  ///< as in WindowTiles
  int y_filters;             ///< stretches of an image
  int y_before;              ///< from the multiple of 16 bytes at or before y to y
  int y_row_step;            ///< from a row of a stretch to the next
  int y_run_mask;            ///< the bits of where a run begins in y that its stretch repeats
  bool y_pairs;              ///< outputs at even columns and their neighbours can be written as one
  bool y_fours;              ///< four outputs of two windows can be written as one
  bool y_in_vectors;         ///< stretches are aligned as they are in y
  Staging staging;
  bool wide;   ///< a filter row is two segments
  bool pools;  ///< y has the maxima of 2x2
  bool whole_images;
  int raw_pitch;       ///< as in WindowTiles
  int x_elements;      ///< elements of x from the first to behind the last
  bool bulk_stores;    ///< the copy engine stores what is gathered
  bool in_fours;       ///< a tile's planes can be read and written four elements at a time
  bool pairs_aligned;  ///< neighbours at even columns of a tile can be read as one

  template <class Stored>
  WindowKernelParams(const ConvProblem& problem, const WindowTiles& tile,
                     const WindowKernelConfig& unit, const Stored* x, const Stored* y)
      : conv(plane_for_kernel(problem)),
        images(tile.images),
        pitch(tile.pitch),
        plane(tile.x_rows * tile.pitch),
        windows(tile.windows),
        strips(tile.strips),
        x_rows(tile.x_rows),
        pitch_pairs(tile.pitch / 2),
        plane_fours(std::max<std::int64_t>(std::int64_t{tile.x_rows} * tile.pitch / 4, 1)),
        channels(problem.c),
        column_tiles(tile.column_tiles),
        bands(tile.bands),
        image_tiles(tile.image_tiles),
        items(static_cast<int>(tile.items())),
        filter_groups(tile.filter_groups),
        y_pitch(tile.y_pitch),
        y_row_pitch(tile.y_row_pitch),
        staging(tile.staging),
        pools(problem.pool == Pool::max_2x2),
        whole_images(tile.whole_images),
        raw_pitch(tile.raw_pitch),
        x_elements(static_cast<int>(reach(problem.x_extents(), problem.x_strides)) + 1),
        bulk_stores(tile.bulk_stores) {
    see_planes(problem);
    const WindowTerms terms(problem, unit);
    shifts = terms.shifts;
    segments = terms.segments;
    segment_rows = terms.segment_rows;
    segment_bits = terms.segment_bits();
    wide = terms.wide();
    second = wide ? 8 : terms.second * pitch;
    pair = terms.pair * pitch;
    channel_k_steps = terms.k_steps();
    row_step = conv.stride_h * pitch;
    strip_step = unit.strip_rows() * row_step;
    group_filters = terms.eight_filters() * unit.filter_n8_tiles;
    x_at = static_cast<int>(window_control_bytes + tile.w_bytes);
    raw_at = x_at + static_cast<int>(tile.x_bytes);
    y_at = raw_at + static_cast<int>(tile.raw_bytes);
    table_at = y_at + static_cast<int>(tile.y_bytes);
    if (unit.streams) {
      const FilterStrips& of = tile.filter_strips;
      k_steps = of.k_steps(), filter_strips = of.count, filter_strip_length = of.length,
      filter_strip_step = of.step;
      parities = Divisor<int>(of.parities), starts = Divisor<int>(of.starts);
      row_terms = Divisor<int>(terms.columns / 2);
      k_tile_strips = tile.k_tile_strips, k_tile_steps = k_tile_strips * filter_strip_length;
      k_tiles = tile.k_tiles, filter_stages = tile.filter_stages, bulk_filters = tile.bulk_filters;
    }
    row_lanes_bits = tile.row_lanes_bits;
    if (staging == Staging::ahead) x_apart = static_cast<int>(tile.x_bytes / 2);
    tile_rows = static_cast<int>(WindowDepth(problem).under(images) * problem.c) * tile.x_rows;
    tile_elements = tile_rows * pitch;
    rows_at_once = tile.threads >> row_lanes_bits;
    see_input(problem, tile, x);
    see_outputs(problem, tile, y);
  }

 private:
  /// The packed filters' dense copy has the channels of the product one after the other.
  static ConvProblem plane_for_kernel(const ConvProblem& problem) {
    ConvProblem plane = plane_of(problem);
    plane.w_strides = dense_strides(plane.w_extents());
    plane.w_strides[0] *= problem.t;
    return plane;
  }
  void see_planes(const ConvProblem& problem) {
    const WindowDepth depth(problem);
    conv.n = static_cast<int>(depth.outputs), planes = static_cast<int>(depth.planes);
    plane_stride = static_cast<int>(depth.stride), plane_step = static_cast<int>(depth.step);
    planes_before = static_cast<int>(depth.before), taps = static_cast<int>(depth.taps);
    const auto along = [](std::int64_t extent, const Strides& strides, int dimension) {
      return extent > 1 ? static_cast<int>(strides[dimension]) : 0;
    };
    const int of_plane = depth.of_volumes ? 2 : 0;
    conv.x_step.n = along(depth.planes, problem.x_strides, of_plane);
    x_plane_step = plane_step * conv.x_step.n;
    x_next_plane = problem.c == 1 ? conv.x_step.n : conv.x_step.c;
    conv.y_step.n = along(depth.outputs, problem.y_strides, of_plane);
    x_volume = along(depth.volumes, problem.x_strides, 0);
    y_volume = along(depth.volumes, problem.y_strides, 0);
    w_tap = static_cast<int>(problem.c * problem.r * problem.s);
    product_channels = static_cast<int>(cuda::product_channels(problem));
    image_step = static_cast<int>(depth.apart() * problem.c) * plane;
  }
  /// Sets what the alignment and the strides of x allow.
  template <class Stored>
  void see_input(const ConvProblem& problem, const WindowTiles& tile, const Stored* x) {
    // A staged copy needs the address that its stretches were planned for.
    if (reinterpret_cast<std::uintptr_t>(x) % 16 != 0 && staging != Staging::ahead)
      staging = Staging::none;
    const auto even = [](std::int64_t value) { return value % 2 == 0; };
    pairs_aligned = input_in_pairs(problem, x);
    // Rows and channels must follow each other without gaps, also from image to image.
    const bool contiguous =
        !problem.has_depth() && pairs_aligned && tile.column_tiles == 1 &&
        problem.padding.left == 0 && pitch == conv.w &&
        (problem.h == 1 || conv.x_step.h == conv.w) && even(problem.h * problem.w) &&
        (tile.images == 1 || problem.c == 1 || conv.x_step.n == problem.c * conv.x_step.c);
    const auto fours = [](std::int64_t value) { return value % 4 == 0; };
    in_fours = contiguous && reinterpret_cast<std::uintptr_t>(x) % (4 * sizeof(Stored)) == 0 &&
               fours(plane) && fours(problem.h * problem.w) && fours(conv.x_step.n) &&
               fours(conv.x_step.c) &&
               fours(tile.bands > 1 ? problem.w : problem.padding.top * problem.w);
  }
  template <class Stored>
  void see_outputs(const ConvProblem& problem, const WindowTiles& tile, const Stored* y) {
    y_filters = std::min(group_filters, conv.k.value());
    y_before = static_cast<int>(reinterpret_cast<std::uintptr_t>(y) % 16 / sizeof(Stored));
    const bool rows_follow = y_row_pitch == 0;
    y_row_step = rows_follow ? conv.y_step.h : y_row_pitch;
    y_run_mask = rows_follow ? 16 / static_cast<int>(sizeof(Stored)) - 1 : 0;
    const int aligned = row_vector(y, problem.y_extents(), problem.y_strides, sizeof(Stored));
    y_pairs = !rows_follow || aligned >= 2;
    y_fours = rows_follow && aligned == 4 && shifts == 2 && !pools && problem.q() % 4 == 0 &&
              tile.windows % 2 == 0;
    // Rows that are runs of their own are gathered from multiples of 16 bytes on.
    const int vector = 16 / static_cast<int>(sizeof(Stored));
    y_in_vectors = rows_follow || y_before == 0;
    for (const int step : {y_volume, conv.y_step.n, conv.y_step.c, conv.y_step.h,
                           tile.windows * shifts / (pools ? 2 : 1)})
      y_in_vectors = y_in_vectors && (rows_follow || step % vector == 0);
    bulk_stores = bulk_stores && y_in_vectors;
  }
};

/// Where pair `number` is in k step 0 of its filter strip. Pairs are counted through columns,
/// starts and channels.
struct StripPair {
  int channel, row, column_pair;

  /// `params` has row_terms, starts, parities, filter_strip_step and filter_strip_length.
  template <class Shape>
  __device__ StripPair(const Shape& params, int number) {
    const auto [rows, of_row] = params.row_terms.divide(number);
    const auto [c, start] = params.starts.divide(rows);
    const auto [part, parity] = params.parities.divide(start);
    channel = c, column_pair = of_row;
    row = parity + part * params.filter_strip_step * params.filter_strip_length;
  }
};

/// One tile: its images, which are of one volume, and where its outputs begin.
struct WindowItem {
  int volume, image, p, q;
  int y;               ///< elements of y from its first to the image's first
  int images, strips;  ///< those that lie in the volume and in the image
  int first_plane;     ///< of x
  int first_h, first_w;

  __device__ WindowItem(const WindowKernelParams& params, int item, int strip_rows) {
    const auto [above_columns, column_tile] = params.column_tiles.divide(item);
    const auto [above_bands, band] = params.bands.divide(above_columns);
    const auto [of_volumes, image_tile] = params.image_tiles.divide(above_bands);
    volume = of_volumes;
    image = image_tile * params.images;
    y = volume * params.y_volume + image * params.conv.y_step.n;
    p = band * params.strips.value() * strip_rows;
    q = column_tile * params.windows.value() * params.shifts;
    images = min(params.images, params.conv.n - image);
    // Where images follow each other strips are whole, so that windows are numbered through images.
    const int rows = params.conv.p.value() - p;
    strips = images > 1 ? params.strips.value()
                        : min(params.strips.value(), (rows - 1) / strip_rows + 1);
    first_plane = image * params.plane_stride - params.planes_before;
    first_h = p * params.conv.stride_h - params.conv.top;
    first_w = q * params.conv.stride_w - params.conv.left;
  }
};

/// Where window `number` of a tile is. The tile has `numbers` of them; a larger `number` means the
/// last one.
struct TileWindow {
  int image, strip, window;

  __device__ TileWindow(const WindowKernelParams& params, int number, int numbers) {
    const auto [strips_before, of_strip] = params.windows.divide(min(number, numbers - 1));
    const auto [images_before, of_image] = params.strips.divide(strips_before);
    image = images_before, strip = of_image, window = of_strip;
  }
};

}  // namespace plumb::cuda
