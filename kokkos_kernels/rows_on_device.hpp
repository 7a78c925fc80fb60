// The work items of kokkos.conv.rows on a device: a column of some rows, so that neighbours read
// neighbouring elements. Small filters of a size known here are kept in registers while the lines
// of the input under all of an item's outputs pass by once.
#pragma once

#include <cstdint>

#include "kokkos_kernels/rows_items.hpp"

namespace plumb::kokkos {

template <class Sum, class Stored>
struct RowsOnDevice : Rows<Sum, Stored> {
  using Base = Rows<Sum, Stored>;
  using Item = typename Base::Item;

  explicit RowsOnDevice(const ConvLaunch& call) : Base(call, 1) {}

  KOKKOS_FUNCTION void operator()(std::int64_t number) const {
    const Item item = this->item_of(number);
    const Axis& axis = this->shape.columns;
    const std::int64_t first_w = axis.first(item.segment);
    const Taps columns = axis.taken(first_w);
    const std::int64_t tap_step = this->shape.w_step.h;
    Sum sums[segment_rows] = {};
    this->for_each_line(item, [&](const Stored* line, const Sum* taps, int first, int last) {
      for (std::int64_t s = columns.begin; s < columns.end; ++s) {
        const Sum input = convert<Sum>(line[axis.source(first_w, s) * this->shape.x_step.w]);
        for (int row = 0; row < segment_rows; ++row)  // all, so that sums lie in registers
          if (row >= first && row <= last) sums[row] += input * taps[s - (row - first) * tap_step];
      }
    });
    for (int row = 0; row < segment_rows; ++row)
      if (row < item.rows)
        this->epilogue(this->without_padding(sums[row], item, row, item.segment), item.k,
                       this->outputs(item, row) + item.segment * this->shape.y_step.w);
  }
};

/// Calls `f<0>()`, `f<1>()` and so on: what it indexes by them can lie in registers.
template <int count, int i = 0, class F>
KOKKOS_FORCEINLINE_FUNCTION void unrolled(const F& f) {
  if constexpr (i < count) {
    f.template operator()<i>();
    unrolled<count, i + 1>(f);
  }
}

/// A work item is a column of `item_rows` rows in `item_planes` planes, for filters of filter_r x
/// filter_s: of any depth where an item is one plane, otherwise of filter_t. All elements of a
/// plane are loaded before they are used, and without branches, so that many are under way. Items
/// at the image's edges, but for columns of zeros, sum output by output.
template <class Sum, class Stored, int filter_t, int filter_r, int filter_s, int item_planes,
          int item_rows>
struct BlocksOnDevice : Rows<Sum, Stored> {
  static_assert(item_planes > 1 || filter_t == 1, "one of the filter's planes after the other");
  static constexpr int lines = filter_r + item_rows - 1, depths = filter_t + item_planes - 1;
  using Sums = Sum[item_planes][item_rows];
  using Filter = Sum[filter_t][filter_r][filter_s];
  /// Four CTAs of 128 threads share a multiprocessor's registers, three where a sum takes two.
  using Bounds = Kokkos::LaunchBounds<128, sizeof(Sum) == 4 ? 4 : 3>;

  std::int64_t plane_blocks;
  bool is_plain;  ///< sums are stored as they are

  explicit BlocksOnDevice(const ConvLaunch& call) : Rows<Sum, Stored>(call, 1) {
    this->block_rows = item_rows;
    this->blocks = pieces_of(this->shape.p, item_rows);
    plane_blocks = pieces_of(this->shape.z, item_planes);
    is_plain = !this->epilogue.bias && !this->epilogue.rectify && !this->epilogue.accumulate;
  }
  std::int64_t items() const {
    return this->shape.n * this->shape.k * plane_blocks * this->blocks * this->segments;
  }
  static bool takes(const ConvProblem& problem) {
    const bool shares_planes = problem.z() > 1 && problem.stride.d == 1 && problem.t == filter_t &&
                               problem.dilation.d == 1;
    return problem.r == filter_r && problem.s == filter_s && problem.dilation.w == 1 &&
           Steps(problem.x_extents(), problem.x_strides).w == 1 && shares_lines(problem) &&
           (item_planes == 1 || shares_planes);
  }

  KOKKOS_FUNCTION void operator()(std::int64_t number) const {
    const Place block = place_of(number, this->shape.k, plane_blocks, this->blocks, this->segments);
    const Place at{block.n, block.c, block.d * item_planes, block.h * item_rows, block.w};
    const Window window = window_at(at);
    if (!window.is_inside) return store_one_by_one(at);
    Sums sums = {};
    const Stored* image = this->x + at.n * this->shape.x_step.n +
                          at.c / this->shape.group_k * this->shape.group_c * this->shape.x_step.c +
                          window.h * this->shape.x_step.h + window.w;
    for (std::int64_t c = 0; c < this->shape.group_c; ++c)
      add_channel(sums, window, image + c * this->shape.x_step.c,
                  this->filters + this->shape.w_step.offset(at.c, c, 0, 0, 0));
    store(sums, at);
  }

 private:
  /// The first element under an item, if all that its outputs read lies in the image and all of
  /// them are there. A window with columns of zeros is moved beside them, its taps against that.
  struct Window {
    std::int64_t d, h, w;
    int shift;  ///< by how many columns it was moved
    bool is_inside;
  };
  KOKKOS_FUNCTION Window window_at(const Place& at) const {
    const Axis &planes = this->shape.planes, &rows = this->shape.rows,
               &columns = this->shape.columns;
    const std::int64_t w = columns.first(at.w);
    Window window{planes.first(at.d), rows.first(at.h), w, 0, false};
    if (columns.boundary == Boundary::zeros) {
      const std::int64_t last = columns.extent - filter_s;
      window.w = w < 0 ? 0 : w > last ? last : w;
    }
    window.shift = static_cast<int>(window.w - w);
    window.is_inside = at.d + item_planes <= this->shape.z && at.h + item_rows <= this->shape.p &&
                       window.h >= 0 && window.h + lines <= rows.extent && window.w >= 0 &&
                       window.w + filter_s <= columns.extent && window.w - w == window.shift;
    if constexpr (item_planes > 1)
      window.is_inside = window.is_inside && window.d >= 0 && window.d + depths <= planes.extent;
    return window;
  }

  KOKKOS_FUNCTION void add_channel(Sums& sums, const Window& window, const Stored* image,
                                   const Sum* filter) const {
    const std::int64_t step = this->shape.x_step.d;
    Filter taps;
    if constexpr (item_planes == 1) {
      const Taps taken = this->shape.planes.taken(window.d);
      for (std::int64_t t = taken.begin; t < taken.end; ++t) {
        load_taps(taps, filter + t * this->shape.w_step.d, window.shift);
        add_plane<0>(sums, taps, image + this->shape.planes.source(window.d, t) * step);
      }
    } else {
      load_taps(taps, filter, window.shift);
      const Stored* plane = image + window.d * step;
      unrolled<depths>([&]<int depth>() {
        add_plane<depth>(sums, taps, plane);
        plane += step;
      });
    }
  }

  static KOKKOS_FUNCTION void load_taps(Filter& taps, const Sum* filter, int shift) {
    const Sum* const moved = filter + shift;
    unrolled<filter_s>([&]<int s>() {
      const bool is_there = s + shift >= 0 && s + shift < filter_s;
      unrolled<filter_t>([&]<int t>() {
        unrolled<filter_r>([&]<int r>() {
          taps[t][r][s] = is_there ? moved[(t * filter_r + r) * filter_s + s] : Sum{0};
        });
      });
    });
  }

  /// Adds the plane of the input that lies `depth` behind the first one under the item.
  template <int depth>
  KOKKOS_FUNCTION void add_plane(Sums& sums, const Filter& taps, const Stored* plane) const {
    Sum inputs[lines][filter_s];
    const Stored* from = plane;
    unrolled<lines>([&]<int line>() {
      unrolled<filter_s>([&]<int s>() { inputs[line][s] = convert<Sum>(from[s]); });
      from += this->shape.x_step.h;
    });
    unrolled<lines>([&]<int line>() {
      unrolled<item_planes>([&]<int z>() {
        unrolled<item_rows>([&]<int row>() {
          if constexpr (depth >= z && depth - z < filter_t && line >= row && line - row < filter_r)
            unrolled<filter_s>(
                [&]<int s>() { sums[z][row] += inputs[line][s] * taps[depth - z][line - row][s]; });
        });
      });
    });
  }

  KOKKOS_FUNCTION void store(const Sums& sums, const Place& at) const {
    const Steps& step = this->shape.y_step;
    bool has_nan = false;
    unrolled<item_planes>([&]<int z>() {
      unrolled<item_rows>([&]<int row>() { has_nan |= sums[z][row] != sums[z][row]; });
    });
    // A tap that was moved away met a column that the filter does not cover, and 0 * Inf is NaN.
    if (has_nan && this->shape.padded) return store_one_by_one(at);
    Stored* const to = this->y + step.offset(at.n, at.c, at.d, at.h, at.w);
    const auto for_each_output = [&](const auto& f) {
      unrolled<item_planes>([&]<int z>() {
        unrolled<item_rows>([&]<int row>() { f(sums[z][row], to + z * step.d + row * step.h); });
      });
    };
    if (is_plain)
      for_each_output([](Sum sum, Stored* output) { *output = convert<Stored>(sum); });
    else
      for_each_output([&](Sum sum, Stored* output) { this->epilogue(sum, at.c, output); });
  }

  KOKKOS_FUNCTION void store_one_by_one(const Place& at) const {
    for (std::int64_t z = at.d; z < at.d + item_planes && z < this->shape.z; ++z)
      for (std::int64_t p = at.h; p < at.h + item_rows && p < this->shape.p; ++p)
        this->epilogue(
            direct_sum<Sum>(this->shape, this->x, this->filters, Place{at.n, at.c, z, p, at.w}),
            at.c, this->y + this->shape.y_step.offset(at.n, at.c, z, p, at.w));
  }
};

/// Calls `run` with the kernel for the problem's filter.
template <class Sum, class Stored, class Run>
void with_device_kernel(const ConvLaunch& call, const Run& run) {
  const auto runs = [&]<class Kernel>(const Kernel*) {
    const bool takes = Kernel::takes(call.problem);
    if (takes) run(Kernel(call));
    return takes;
  };
  constexpr int planes = sizeof(Sum) == 4 ? 4 : 2;  // of whose sums registers have room
  const bool is_done =
      runs(static_cast<const BlocksOnDevice<Sum, Stored, 3, 3, 3, planes, 4>*>(nullptr)) ||
      runs(static_cast<const BlocksOnDevice<Sum, Stored, 1, 3, 3, 1, 8>*>(nullptr)) ||
      runs(static_cast<const BlocksOnDevice<Sum, Stored, 1, 5, 5, 1, 4>*>(nullptr));
  if (!is_done) run(RowsOnDevice<Sum, Stored>(call));
}

}  // namespace plumb::kokkos
