#include "cuda_kernels/interleaved/interleaved.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "cuda_kernels/conv/packed_header.hpp"
#include "cuda_kernels/cost/interleaved.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"

namespace plumb::cuda {
namespace {

/// Returns the first pixels of core rows of `taps` pixels each, along one axis of what `outputs`
/// outputs read. Where the stride is longer than filters, nothing reads the pixels between them,
/// and core rows of these alone are left out.
std::vector<int> first_taps(const TapAxis& axis, int outputs, int taps) {
  const int end = axis.pixels_of(outputs);
  std::vector<int> firsts;
  for (int first = 0; first < end; first += taps) {
    bool read = false;
    for (int pixel = first; pixel < std::min(first + taps, end); ++pixel)
      read |= axis.reads(outputs, pixel);
    if (read) firsts.push_back(first);
  }
  return firsts;
}

/// Returns how many remainders by the stride the first taps have.
int remainders(const std::vector<int>& firsts, int stride) {
  std::set<int> met;
  for (const int first : firsts) met.insert(first % stride);
  return static_cast<int>(met.size());
}

}  // namespace

InterleavedLayout::InterleavedLayout(const InterleavedConv& conv,
                                     const InterleavedElements& elements, int output_rows,
                                     int output_columns, int output_copies, CoreRowForm form,
                                     int channel_chunks)
    : rows(output_rows),
      columns(output_columns),
      spread(output_copies),
      taps_h(conv.h),
      taps_w(conv.w),
      stride_h(taps_h.pixels_between(rows)),
      stride_w(taps_w.pixels_between(columns * spread)),
      chunks(channel_chunks),
      chunk_channels(static_cast<int>(ceil_div(conv.problem.c, chunks))),
      group_filters(interleaved_rows / (rows * columns)),
      groups(static_cast<int>(ceil_div(conv.problem.k, group_filters / spread))),
      k_step_bytes(elements.k_step_bytes()) {
  for (int first = 0; first < chunk_channels;) {
    unsigned channels = static_cast<unsigned>(std::min(chunk_channels - first, 8));
    if (form.by_twos) channels = std::bit_floor(channels);
    add_channel_block(first, static_cast<int>(channels), form);
    first += static_cast<int>(channels);
  }
  // Core rows ascend, so that the second of a k step is equally far behind its first in any tile.
  const auto place = [&](const CoreRow& of) {
    return std::array{of.phase_plane, of.r / stride_h, of.s / stride_w};
  };
  std::sort(core_rows.begin(), core_rows.end(),
            [&](const CoreRow& a, const CoreRow& b) { return place(a) < place(b); });
  k_steps = static_cast<int>(ceil_div(static_cast<std::int64_t>(core_rows.size()), 2));
  packed_k_steps =
      static_cast<int>(ceil_div(k_steps, elements.k_tile_steps())) * elements.k_tile_steps();
}

void InterleavedLayout::add_channel_block(int first_c, int channels, CoreRowForm form) {
  // Where channels do not fill a core row, several taps of them do.
  int taps = 1;
  while (2 * taps * channels <= 8) taps *= 2;
  ChannelBlock channel_block{};
  std::vector<int> rows_of_block, columns_of_block;
  std::pair<int, int> least;
  for (int of_row = taps; of_row >= 1; of_row /= 2) {
    auto of_h = first_taps(taps_h, rows, taps / of_row);
    auto of_w = first_taps(taps_w, columns * spread, of_row);
    const int of_core_rows = static_cast<int>(of_h.size() * of_w.size());
    const int of_phase_planes = remainders(of_h, stride_h) * remainders(of_w, stride_w);
    const std::pair price{of_core_rows + form.per_phase_plane * of_phase_planes, of_phase_planes};
    if (channel_block.channels != 0 && price >= least) continue;
    least = price;
    channel_block = {first_c, channels, taps / of_row, of_row};
    rows_of_block = std::move(of_h), columns_of_block = std::move(of_w);
  }
  channel_blocks.push_back(channel_block);
  for (const int r : rows_of_block)
    for (const int s : columns_of_block) {
      const PhasePlane phase_plane{static_cast<int>(channel_blocks.size()) - 1, r % stride_h,
                                   s % stride_w};
      auto at = std::find(phase_planes.begin(), phase_planes.end(), phase_plane);
      if (at == phase_planes.end()) at = phase_planes.insert(at, phase_plane);
      core_rows.push_back({static_cast<int>(at - phase_planes.begin()), r, s});
    }
}

bool InterleavedLayout::stores_pixels(const ConvProblem& problem) const {
  const auto filters = vector_bytes / static_cast<std::int64_t>(size_in_bytes(problem.dtype));
  const Extents extents = problem.y_extents();
  bool aligned = position_columns() == 1 && rows <= max_pixel_rows && problem.k % filters == 0 &&
                 problem.y_strides[1] == 1;
  for (int i = 0; i < extents.rank(); ++i)
    aligned = aligned && (i == 1 || extents[i] == 1 || problem.y_strides[i] % filters == 0);
  return aligned;
}

std::size_t InterleavedLayout::group_bytes() const {
  return packed_header_bytes + static_cast<std::size_t>(chunks) *
                                   static_cast<std::size_t>(packed_k_steps) *
                                   static_cast<std::size_t>(k_step_bytes);
}

int InterleavedTiles::span() const {
  return ((images - 1) * phase_plane_rows + rows - 1) * pitch + columns;
}
std::int64_t InterleavedTiles::bytes() const {
  return interleaved_control_bytes + stage_bytes + w_bytes() + 2 * x_bytes + slack_bytes +
         line_bytes;
}
std::int64_t InterleavedTiles::items(const ConvProblem& problem) const {
  return ceil_div(problem.n, images) * bands * column_tiles;
}

namespace {

/// Finds the tiles of a problem, and the time that they take.
class Planner {
 public:
  Planner(const ConvProblem& problem, const DeviceInfo& device, const InterleavedLayout& layout,
          const InterleavedElements& elements)
      : problem_(problem),
        layout_(layout),
        elements_(elements),
        limit_(static_cast<std::int64_t>(device.shared_memory_bytes)),
        place_rows_(ceil_div(problem.p(), layout.rows)),
        place_columns_(ceil_div(problem.q(), layout.position_columns())),
        model_(problem, device, layout, elements) {
    for (const CoreRow& of : layout.core_rows) {
      max_r_ = std::max(max_r_, of.r / layout.stride_h);
      max_s_ = std::max(max_s_, of.s / layout.stride_w);
    }
  }

  InterleavedTiles best() {
    for (std::int64_t column_tiles = 1;;) {
      for (std::int64_t bands = 1;;) {
        consider(1, bands, column_tiles);
        if (bands == 1 && column_tiles == 1) consider_images();
        const std::int64_t rows = ceil_div(place_rows_, bands);
        if (rows == 1) break;
        bands = ceil_div(place_rows_, rows - std::max<std::int64_t>(1, rows > 16 ? rows / 8 : 1));
      }
      const std::int64_t columns = ceil_div(place_columns_, column_tiles);
      if (columns <= 8) break;
      column_tiles = ceil_div(place_columns_, columns - std::max<std::int64_t>(1, columns / 16));
    }
    return best_;
  }

 private:
  void consider_images() {
    constexpr int max_images = 64;
    for (int images = 2; images <= max_images && images <= problem_.n;
         images += images < 8 ? 1 : images / 4)
      consider(images, 1, 1);
  }

  /// Gives a tile its shared memory; returns whether there is enough.
  bool fit(InterleavedTiles& tile, bool streams) const {
    const auto phase_planes = static_cast<std::int64_t>(layout_.phase_planes.size());
    const std::int64_t lines = phase_planes * tile.images * tile.phase_plane_rows;
    if (lines * tile.pitch > limit_ / (2 * elements_.core_row_bytes())) return false;
    tile.x_bytes = elements_.core_row_bytes() * lines * tile.pitch;
    tile.line_bytes = 16 * lines;
    if (!streams) {
      tile.filter_stage_bytes = layout_.resident_k_steps() * layout_.k_step_bytes;
      return tile.bytes() <= limit_;
    }
    tile.filter_stage_bytes = k_tile_bytes;
    tile.k_tiles = layout_.packed_k_steps / elements_.k_tile_steps();
    tile.filter_stages = std::min(max_filter_stages, tile.k_tiles);
    while (tile.filter_stages >= min_filter_stages && tile.bytes() > limit_) --tile.filter_stages;
    return tile.filter_stages >= min_filter_stages;
  }

  void consider(int images, std::int64_t bands, std::int64_t column_tiles) {
    InterleavedTiles tile;
    tile.images = images;
    tile.rows = static_cast<int>(ceil_div(place_rows_, bands));
    // Rows of outputs are even where y's are, because pairs of outputs are written at once.
    const int multiple = layout_.columns == 1 && problem_.q() % 2 == 0 ? 2 : 1;
    const auto rounded = [&](std::int64_t places) {
      return static_cast<int>(ceil_div(places, multiple)) * multiple;
    };
    tile.columns = rounded(ceil_div(place_columns_, column_tiles));
    tile.bands = static_cast<int>(ceil_div(place_rows_, tile.rows));
    tile.column_tiles = static_cast<int>(ceil_div(place_columns_, tile.columns));
    tile.pitch = rounded(tile.columns + max_s_);
    // Of two neighbouring positions a lane stores vectors, which lie in one row.
    if (layout_.stores_pixels(problem_)) tile.pitch += tile.pitch % 2;
    tile.phase_plane_rows = tile.rows + max_r_;
    // Sums that wait for the next chunk stay in registers, which hold those of one pass.
    if (layout_.chunks > 1 && tile.passes() > interleaved_warpgroups) return;
    for (const bool streams : {false, true}) {
      // Of a tile of one pass a warp group would have to leave the stages of filters unread:
      // nothing holds its warps together then, and one that falls behind by a fill of a stage waits
      // for ever.
      if (streams && layout_.chunks > 1 && tile.passes() < interleaved_warpgroups) continue;
      InterleavedTiles fitted = tile;
      if (!fit(fitted, streams)) continue;
      fitted.seconds = model_.seconds(fitted);
      fitted.load_seconds = model_.load_seconds(fitted);
      if (best_.seconds == 0 || fitted.seconds < best_.seconds) best_ = fitted;
    }
  }

  const ConvProblem& problem_;
  const InterleavedLayout& layout_;
  InterleavedElements elements_;
  std::int64_t limit_;
  std::int64_t place_rows_, place_columns_;
  int max_r_ = 0, max_s_ = 0;
  InterleavedModel model_;
  InterleavedTiles best_;
};

/// Returns into how many chunks channels may be cut. Few channels are left as they have been
/// measured.
std::vector<int> chunk_counts(const ConvProblem& problem) {
  constexpr int max_unchunked = 15;
  std::vector<int> counts;
  if (problem.c <= max_chunk_channels) counts.push_back(1);
  if (problem.c > max_unchunked)
    for (const std::int64_t channels : {32, 24, 16, 12, 10, 8}) {
      const int chunks = static_cast<int>(ceil_div(problem.c, channels));
      if (chunks > 1 && (counts.empty() || chunks != counts.back())) counts.push_back(chunks);
    }
  return counts;
}

/// Returns the layout whose rows and columns of outputs have the least predicted time. It is chosen
/// for a large batch, and once for any device that this runs on, because filters are packed once
/// for all of them.
InterleavedLayout best_layout(const InterleavedConv& conv, const InterleavedElements& elements) {
  const ConvProblem& large = conv.problem;
  DeviceInfo hopper;
  hopper.units = 132;
  hopper.shared_memory_bytes = 227 * 1024;
  hopper.compute_major = 9;
  hopper.nominal_fp32_flop_per_second = 67e12;
  hopper.nominal_bytes_per_second = 4.8e12;
  const int least_chunks = static_cast<int>(ceil_div(large.c, std::int64_t{max_chunk_channels}));
  InterleavedLayout best(conv, elements, conv.h.up(), conv.w.up(), 1, core_row_forms[0],
                         least_chunks);
  const auto is_held = [](const InterleavedLayout& of) {
    return of.channel_blocks.size() <= max_channel_blocks &&
           of.phase_planes.size() <= max_phase_planes && of.k_steps <= max_interleaved_k_steps;
  };
  double least = 0;  // there is none as yet
  if (is_held(best)) least = Planner(large, hopper, best, elements).best().seconds;
  ConvProblem one_image = large;
  one_image.n = 1;
  const auto takes_any_batch = [&](const InterleavedLayout& of) {
    return Planner(one_image, hopper, of, elements).best().seconds > 0;
  };
  const auto consider = [&](InterleavedLayout&& other) {
    if (other.groups > best.groups || !is_held(other)) return;
    if (conv.is_gradient() && !takes_any_batch(other)) return;
    const double seconds = Planner(large, hopper, other, elements).best().seconds;
    // The model cannot tell smaller gains.
    if (seconds == 0 || (least != 0 && seconds >= 0.97 * least)) return;
    least = seconds;
    best = std::move(other);
  };
  const auto consider_forms = [&](int rows, int columns, int spread, int chunks = 1) {
    std::vector<std::vector<ChannelBlock>> considered;  // most forms come to the same blocks
    if (rows == conv.h.up() && columns == conv.w.up() && spread == 1 && chunks == least_chunks)
      considered.push_back(best.channel_blocks);
    for (const CoreRowForm form : core_row_forms) {
      InterleavedLayout other(conv, elements, rows, columns, spread, form, chunks);
      if (std::find(considered.begin(), considered.end(), other.channel_blocks) != considered.end())
        continue;
      considered.push_back(other.channel_blocks);
      consider(std::move(other));
    }
  };
  for (int columns = conv.w.up(); columns <= max_output_columns && columns <= large.q();
       columns *= 2)
    for (int rows = conv.h.up(); rows <= max_output_rows && rows <= large.p(); rows *= 2)
      for (const int chunks : chunk_counts(large)) consider_forms(rows, columns, 1, chunks);
  // Copies fill a product's rows where filters are one or two. Narrow filters are left as they have
  // been measured.
  constexpr int widest_measured = 11;
  for (int rows = large.s > widest_measured && least_chunks == 1 ? 4 : max_output_rows + 1;
       rows <= max_output_rows && rows <= large.p(); rows *= 2)
    if (large.q() >= max_output_columns * output_spread && rows % conv.h.up() == 0)
      consider_forms(rows, max_output_columns, output_spread);
  return best;
}

}  // namespace

InterleavedLayout layout_interleaved(InterleavedConv conv, const InterleavedElements& elements) {
  conv.problem.n = large_batch;
  return best_layout(conv, elements);
}

InterleavedTiles tile_interleaved(const ConvProblem& problem, const DeviceInfo& device,
                                  const InterleavedLayout& layout,
                                  const InterleavedElements& elements) {
  return Planner(problem, device, layout, elements).best();
}

}  // namespace plumb::cuda
