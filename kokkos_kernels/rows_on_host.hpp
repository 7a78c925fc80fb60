// The work items of kokkos.conv.rows on a host: up to four rows of the output, segment by segment.
// Lines of the input are read where they lie, but for segments at the image's edges, for which they
// are copied with what the boundary shows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kokkos_kernels/row_segments.hpp"
#include "kokkos_kernels/rows_items.hpp"

namespace plumb::kokkos {

/// How many columns of the input a segment may need beside its own.
inline constexpr std::int64_t max_beside = 4096;

/// So many columns in whole granules.
template <class Sum>
int granules_of(std::int64_t columns) {
  return static_cast<int>(pieces_of(columns, segment_granule<Sum>)) * segment_granule<Sum>;
}

template <class Sum, class Stored>
struct RowsOnHost : Rows<Sum, Stored> {
  using Base = Rows<Sum, Stored>;
  using Item = typename Base::Item;
  static constexpr std::int64_t columns = segment_columns<Sum>;
  /// Elements that copies of lines have room for: of as many lines as meet one row of a filter.
  static constexpr std::int64_t copied = segment_rows * (columns + max_beside);
  /// Outputs of more bytes are written past the caches.
  static constexpr double kept_bytes = 12 << 20;
  /// Work items that there are at least, if there are as many segments and filters.
  static constexpr std::int64_t enough_items = 256;

  RowLoops<Sum> loops;
  std::int64_t beside;                       ///< (S - 1) dilation
  std::int64_t item_segments, item_filters;  ///< of an item, at most
  std::int64_t row_parts, group_parts;       ///< parts of a row, and of a group's filters
  int room;                                  ///< lines that are added at once at most
  bool past_caches;                          ///< whether y is so large that no cache would keep it

  RowsOnHost(const ConvLaunch& call, const RowLoops<Sum>& loops_)
      : Base(call, columns),
        loops(loops_),
        beside((this->shape.columns.taps - 1) * this->shape.columns.dilation) {
    const ConvShape& of = this->shape;
    // Rows are cut first: filters of one item share its lines.
    const std::int64_t others = of.n * of.groups * of.z * this->blocks;
    item_segments =
        std::clamp<std::int64_t>(this->segments * others / enough_items, 1, this->segments);
    row_parts = pieces_of(this->segments, item_segments);
    item_filters =
        std::clamp<std::int64_t>(of.group_k * others * row_parts / enough_items, 1, of.group_k);
    group_parts = pieces_of(of.group_k, item_filters);
    past_caches =
        static_cast<double>(element_count(call.problem.y_extents())) * sizeof(Stored) > kept_bytes;
    room = static_cast<int>(std::min<std::int64_t>(max_lines, copied / (columns + beside)));
  }

  std::int64_t items() const {
    return this->shape.n * this->shape.groups * group_parts * this->shape.z * this->blocks *
           row_parts;
  }

  /// An item is a block of rows, or a part of it, of a group's filters, or some of them.
  void operator()(std::int64_t number) const {
    const ConvShape& of = this->shape;
    const Place at = place_of(number, of.groups * group_parts, of.z, this->blocks, row_parts);
    const std::int64_t group = at.c / group_parts;
    const std::int64_t first_k = group * of.group_k + at.c % group_parts * item_filters;
    const std::int64_t last_k = std::min(first_k + item_filters, (group + 1) * of.group_k);
    Item item{at.n, first_k, at.d, at.h * this->block_rows, 0, 0};
    item.rows = static_cast<int>(std::min<std::int64_t>(this->block_rows, of.p - item.p));
    const std::int64_t last = std::min((at.w + 1) * item_segments, this->segments);
    Batch batch;
    Lines lines;
    const bool is_whole = gather(item, Position{}, batch).is_end(of);
    for (item.segment = at.w * item_segments; item.segment < last; ++item.segment) {
      const Segment segment = segment_of(item);
      if (is_whole) find_lines(segment, batch, lines);
      for (item.k = first_k; item.k < last_k; ++item.k) {
        alignas(64) Sum sums[segment_rows * columns];
        std::fill_n(sums, segment_rows * columns, Sum{0});
        if (is_whole)
          add_batch(item, segment, batch, lines, sums);
        else
          for (Position from{}; !from.is_end(of);) {
            from = gather(item, from, batch);
            find_lines(segment, batch, lines);
            add_batch(item, segment, batch, lines, sums);
          }
        finish(item, segment, sums);
      }
    }
    if (past_caches) end_stores();
  }

 private:
  /// Outputs from `begin` to `end` of a row are stored; summed are whole granules of them, `count`
  /// columns from column `q` on, whose first tap reads column `first_w` of the input. They may read
  /// the image alone, where it lies.
  struct Segment {
    std::int64_t begin, end, q, first_w;
    int count;
    bool in_place;
  };

  Segment segment_of(const Item& item) const {
    Segment of{};
    of.begin = item.segment * columns;
    of.end = std::min(of.begin + columns, this->shape.q);
    // The last segment of a row goes back to where its granules are whole, and stores what is new.
    of.count = granules_of<Sum>(of.end - of.begin);
    of.q = std::max<std::int64_t>(of.end - of.count, 0);
    of.first_w = of.q - this->shape.columns.before;
    of.in_place = std::is_same_v<Sum, Stored> && this->shape.x_step.w == 1 && of.first_w >= 0 &&
                  of.first_w + of.count + beside <= this->shape.columns.extent;
    return of;
  }

  /// Channel, plane and row of the filter that a batch begins with.
  struct Position {
    std::int64_t c = 0, t = -1, r = 0;  ///< t < 0: the first that is taken

    bool is_end(const ConvShape& shape) const { return c == shape.group_c; }
  };
  /// Lines of the input, and the filters' rows that meet them.
  struct Batch {
    const Stored* lines[max_lines];
    const Stored* ahead[max_lines];  ///< lines of the block below that this one does not have
    Panel panels[max_lines];
    int line_count, panel_count;
  };

  /// Fills a batch from a position on, and returns what comes behind it.
  Position gather(const Item& item, Position at, Batch& batch) const {
    const ConvShape& of = this->shape;
    const std::int64_t first_d = of.planes.first(item.z), first_h = of.rows.first(item.p);
    const Taps planes = of.planes.taken(first_d);
    const int more = item.rows == 1 ? 0 : segment_rows - 1;
    const Stored* const image =
        this->x + item.n * of.x_step.n + item.k / of.group_k * of.group_c * of.x_step.c;
    batch.line_count = batch.panel_count = 0;
    for (; at.c < of.group_c; ++at.c, at.t = -1) {
      if (at.t < 0) at.t = planes.begin;
      for (; at.t < planes.end; ++at.t, at.r = 0) {
        const Stored* const plane =
            image + at.c * of.x_step.c + of.planes.source(first_d, at.t) * of.x_step.d;
        const bool is_last = at.t + 1 == planes.end;
        while (at.r < of.rows.taps) {
          const auto rows =
              static_cast<int>(std::min<std::int64_t>(room - more, of.rows.taps - at.r));
          if (batch.line_count + rows + more > room) return at;
          batch.panels[batch.panel_count++] = {of.w_step.offset(0, at.c, at.t, at.r, 0),
                                               batch.line_count, rows};
          for (int i = 0; i < rows + more; ++i, ++batch.line_count) {
            const std::int64_t row = at.r + i;
            const std::int64_t h = i < rows + item.rows - 1 ? of.rows.source(first_h, row) : -1;
            const bool has_ahead =
                is_last && h >= 0 && row + 1 >= of.rows.taps && h + segment_rows < of.rows.extent;
            batch.lines[batch.line_count] = h < 0 ? nullptr : plane + h * of.x_step.h;
            batch.ahead[batch.line_count] =
                has_ahead ? plane + (h + segment_rows) * of.x_step.h : nullptr;
          }
          at.r += rows;
        }
      }
    }
    return at;
  }

  /// Where the lines of a segment begin.
  struct Lines {
    const Sum* begin[max_lines];
    Sum copies[copied];
  };

  void find_lines(const Segment& segment, const Batch& batch, Lines& lines) const {
    const std::int64_t length = segment.count + beside;
    for (int i = 0; i < batch.line_count; ++i) {
      const Stored* const line = batch.lines[i];
      Sum* const copy = lines.copies + i * length;
      lines.begin[i] = copy;
      if (!line)
        lines.begin[i] = nullptr;
      else if (segment.in_place)
        lines.begin[i] = reinterpret_cast<const Sum*>(line + segment.first_w);
      else
        copy_line(line, segment.first_w, length, copy);
      // Hardware fetches ahead along a line, but not from the end of one block to the next.
      if (batch.ahead[i]) prefetch(batch.ahead[i] + std::max<std::int64_t>(segment.first_w, 0));
    }
  }
  static void prefetch([[maybe_unused]] const Stored* line) {
#ifdef __GNUC__
    constexpr int line_bytes = 64;
    for (int byte = 0; byte < segment_bytes; byte += line_bytes)
      __builtin_prefetch(reinterpret_cast<const char*>(line) + byte);
#endif
  }

  void add_batch(const Item& item, const Segment& segment, const Batch& batch, const Lines& lines,
                 Sum* sums) const {
    loops.add_panels({.sums = sums,
                      .lines = lines.begin,
                      .panels = batch.panels,
                      .taps = this->filters + this->shape.w_step.offset(item.k, 0, 0, 0, 0),
                      .count = batch.panel_count,
                      .row_step = this->shape.w_step.h,
                      .tap_count = this->shape.columns.taps,
                      .dilation = this->shape.columns.dilation,
                      .rows = item.rows,
                      .columns = segment.count});
  }

  /// Stores what is new of a segment.
  void finish(const Item& item, const Segment& segment, Sum* sums) const {
    // Rows and planes of zeros are left out; columns of them are in the copies.
    const bool has_zeros = !segment.in_place && this->shape.columns.boundary == Boundary::zeros;
    for (int row = 0; row < item.rows; ++row) {
      Sum* const all = sums + row * columns;
      Sum* const own = all + (segment.begin - segment.q);
      if (has_zeros && !loops.all_finite(all, segment.count))
        for (std::int64_t i = segment.begin; i < segment.end; ++i)
          own[i - segment.begin] = this->without_padding(own[i - segment.begin], item, row, i);
      store(item, row, segment.begin, segment.end, own);
    }
  }

  /// What `count` columns of the input show, from the coordinate `first_w` on.
  void copy_line(const Stored* line, std::int64_t first_w, std::int64_t count, Sum* copy) const {
    const Axis& axis = this->shape.columns;
    const std::int64_t step = this->shape.x_step.w;
    const std::int64_t begin = std::clamp<std::int64_t>(-first_w, 0, count);
    const std::int64_t end = std::clamp<std::int64_t>(axis.extent - first_w, begin, count);
    const auto show = [&](std::int64_t from, std::int64_t to) {
      if (axis.boundary == Boundary::zeros) return std::fill(copy + from, copy + to, Sum{0});
      for (std::int64_t i = from; i < to; ++i) {
        const std::int64_t w = at_boundary(axis.boundary, first_w + i, axis.extent);
        copy[i] = w < 0 ? Sum{0} : convert<Sum>(line[w * step]);
      }
    };
    show(0, begin);
    copy_inside(line + (first_w + begin) * step, step, end - begin, copy + begin);
    show(end, count);
  }

  static void copy_inside(const Stored* from, std::int64_t step, std::int64_t count, Sum* to) {
    if constexpr (std::is_same_v<Sum, Stored>)
      if (step == 1) return static_cast<void>(std::copy_n(from, count, to));
    if (step == 1)
      for (std::int64_t i = 0; i < count; ++i) to[i] = convert<Sum>(from[i]);
    else
      for (std::int64_t i = 0; i < count; ++i) to[i] = convert<Sum>(from[i * step]);
  }

  void store(const Item& item, int row, std::int64_t begin, std::int64_t end,
             const Sum* sums) const {
    Stored* const line = this->outputs(item, row) + begin * this->shape.y_step.w;
    const std::int64_t step = this->shape.y_step.w;
    const bool is_plain =
        step == 1 && !this->epilogue.bias && !this->epilogue.rectify && !this->epilogue.accumulate;
    if (is_plain && std::is_same_v<Sum, Stored> && past_caches)
      store_past_caches(sums, line, static_cast<std::size_t>(end - begin) * sizeof(Sum));
    else if (is_plain)
      for (std::int64_t i = 0; i < end - begin; ++i) line[i] = convert<Stored>(sums[i]);
    else
      for (std::int64_t i = 0; i < end - begin; ++i)
        this->epilogue(sums[i], item.k, line + i * step);
  }
};

}  // namespace plumb::kokkos
