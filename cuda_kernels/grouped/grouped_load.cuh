// Copies to shared memory: a block's filters, once, and x under each tile. What lies outside of the
// image, and channels beyond the last, are zeros.
#pragma once

#include "cuda_kernels/grouped/grouped_params.cuh"
#include "cuda_kernels/primitives/async_copy.cuh"
#include "cuda_kernels/primitives/mma.cuh"

namespace plumb::cuda {

/// Returns `GroupedFilters::term_at(number)`.
template <class Params>
__device__ GroupedTerm term_of(const Params& params, int number) {
  const auto [of_taps, second] = params.beside.divide(number);
  const auto [column, row] = params.tap_rows.divide(of_taps);
  const auto [tap, unit] = params.tap_units.divide(column * params.packed.beside + second);
  return {.row = row, .column = tap, .unit = unit};
}

/// Copies the packed filters of the block's strips, and finds where terms lie in a patch.
template <GroupedFault fault, GroupedShape shape, class Params>
__device__ void load_filters(const Params& params, const GroupedShared<shape, Params::size>& shared,
                             int first_strip) {
  const int thread = static_cast<int>(threadIdx.x), threads = params.cut.threads();
  const int strips = min(params.cut.strips, params.packed.strips - first_strip);
  const char* const from = params.filters + std::int64_t{first_strip} * params.packed.strip_bytes();
  const int bytes = strips * params.packed.strip_bytes();
#pragma unroll 4
  for (int at = 16 * thread; at < bytes; at += 16 * threads)
    copy_16_bytes_async(shared.filters() + at, from + at);
  const int first_unit = params.packed.first_unit(first_strip * shape.bundles);
  for (int i = thread; i < params.cut.strips * shape.bundles; i += threads)
    shared.bundles(params)[i] =
        (params.packed.first_unit(first_strip * shape.bundles + i) - first_unit) *
        grouped_unit_halves;
  for (int term = thread; term < 2 * params.packed.steps(); term += threads) {
    // What fills up the last step meets filters of zeros: any unit will do.
    GroupedTerm of = term_of(params, min(term, params.packed.terms() - 1));
    of.column = min(of.column, params.w.taps - 1);
    if (fault == GroupedFault::wrong_tap && of.column > 0 && of.column + 1 == params.w.taps)
      --of.column;
    shared.terms()[term] =
        grouped_unit_halves * (grouped_row_at(params, of.row * params.h.dilation) +
                               grouped_column_at(params, of.column * params.w.dilation) + of.unit);
  }
}

/// Finds where the tile's outputs and the rows of x under them lie. The block's threads call it,
/// and meet before they read.
template <GroupedFault fault, GroupedShape shape, class Params>
__device__ void find_places(const Params& params, const GroupedShared<shape, Params::size>& shared,
                            const GroupedTile& tile) {
  const int thread = static_cast<int>(threadIdx.x), threads = params.cut.threads();
  for (int i = thread; i < params.rows.value(); i += threads) {
    const auto [image, h] = params.under_h.divide(i);
    const bool is_there =
        tile.n + image < params.images &&
        static_cast<unsigned>(tile.h + h) < static_cast<unsigned>(params.h.extent);
    shared.rows()[i] = {
        is_there ? (tile.n + image) * params.shape.x_n + (tile.h + h) * params.shape.rows.x_step
                 : grouped_nowhere,
        grouped_unit_bytes * (image * params.cut.image_units + grouped_row_at(params, h))};
  }
  for (int i = thread; i < params.runs.value() * shape.pixels(); i += threads) {
    const GroupedPixel pixel(params, i);
    const bool is_there = fault == GroupedFault::unmasked || pixel.is_there(params, tile);
    shared.places()[i] = {is_there ? pixel.of_y(params, tile) : grouped_nowhere,
                          pixel.of_patch(params)};
  }
}

/// Loads x under a tile.
template <class Params, GroupedFault fault>
class GroupedLoad {
 public:
  using Stored = typename Params::Stored;

  __device__ GroupedLoad(const Params& params, char* patch, const GroupedRow* rows,
                         const GroupedTile& tile, int first_unit)
      : params_(params), tile_(tile), rows_(rows), patch_(patch), first_unit_(first_unit) {}

  __device__ void load() const {
    if (params_.cut.input == GroupedInput::units) return load_units();
    switch (params_.cut.x_run) {
      case 1: return load_runs<1>();
      case 2: return load_runs<2>();
      case 4: return load_runs<4>();
      default:
        if constexpr (unit_ == 8) return load_runs<8>();
    }
  }

 private:
  static constexpr int unit_ = Params::unit;  ///< channels

  __device__ bool has_column(int w) const {
    return static_cast<unsigned>(w) < static_cast<unsigned>(params_.w.extent);
  }
  __device__ static uint4 outside() {
    constexpr std::uint32_t ones = fault == GroupedFault::padding_of_ones ? 0x3c003c00 : 0;  // f16
    return {ones, ones, ones, ones};
  }

  /// A thread has a unit of a column, and goes down the rows: those of as many columns as there are
  /// threads, then what is left, which all threads share by rows.
  __device__ void load_units() const {
    const int threads = params_.cut.threads(), thread = static_cast<int>(threadIdx.x);
    const int items = params_.row_units.value();
#pragma unroll 1
    for (int first = 0; first < items; first += threads) {
      const int count = min(threads, items - first), row = thread / count;
      if (row < threads / count) load_column(first + thread - row * count, row, threads / count);
    }
  }
  /// Loads a unit of a row's, of all rows from `first` on that are `step` apart.
  __device__ void load_column(int of_row, int first, int step) const {
    const auto [w, unit] = params_.units.divide(of_row);
    const bool has_unit = has_column(tile_.w + w) && first_unit_ + unit < params_.packed.all_units;
    const int from = (tile_.w + w) * params_.shape.columns.x_step + (first_unit_ + unit) * unit_;
    char* const to = patch_ + grouped_unit_bytes * (grouped_column_at(params_, w) + unit);
    if constexpr (unit_ == 4 && fault != GroupedFault::unrounded)
      round_rows(from, to, has_unit, first, step);
    else
      copy_rows(from, to, has_unit, first, step);
  }
  __device__ void copy_rows(int from, char* to, bool has_unit, int first, int step) const {
#pragma unroll 4
    for (int number = first; number < params_.rows.value(); number += step) {
      const GroupedRow row = rows_[number];
      const bool is_there = has_unit && row.from != grouped_nowhere;
      if (fault == GroupedFault::padding_of_ones && !is_there) {
        *reinterpret_cast<uint4*>(to + row.to) = outside();
        continue;
      }
      copy_16_bytes_async(to + row.to, params_.x + (is_there ? from + row.from : 0),
                          is_there ? grouped_unit_bytes : 0);
    }
  }
  /// Rounds units of f32 to TF32 on their way. Several are read before the first is written.
  __device__ void round_rows(int from, char* to, bool has_unit, int first, int step) const {
    constexpr int batch = 8;
    const int rows = params_.rows.value();
#pragma unroll 1
    for (int number = first; number < rows; number += batch * step) {
      uint4 units[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        if (number + i * step >= rows) break;
        const int of_row = rows_[number + i * step].from;
        units[i] = has_unit && of_row != grouped_nowhere
                       ? __ldg(reinterpret_cast<const uint4*>(params_.x + from + of_row))
                       : uint4{};
      }
#pragma unroll
      for (int i = 0; i < batch; ++i)
        if (number + i * step < rows)
          *reinterpret_cast<uint4*>(to + rows_[number + i * step].to) = rounded(units[i]);
    }
  }

  /// Runs of a row's pixels: a thread loads those of a unit's channels, and turns them to
  /// units. As many neighbouring lanes have neighbouring units as a run has pixels, where there are
  /// as many: what eight lanes write then lies in all banks.
  template <int run>
  __device__ void load_runs() const {
    constexpr int bytes = run * Params::size;
    using Words = std::conditional_t<
        bytes == 16, uint4,
        std::conditional_t<bytes == 8, uint2,
                           std::conditional_t<bytes == 4, std::uint32_t, std::uint16_t>>>;
    const int lane_units = params_.lane_units.value();
    const int items = params_.rows.value() * params_.vectors.value() * params_.cut.units;
    // The first run may begin before the tile's first column.
    const int first_w = tile_.w & -run;
#pragma unroll 1
    for (int item = static_cast<int>(threadIdx.x); item < items; item += params_.cut.threads()) {
      const auto [rest, low] = params_.lane_units.divide(item);
      const auto [above, vector] = params_.vectors.divide(rest);
      const auto [high, number] = params_.rows.divide(above);
      const GroupedRow row = rows_[number];
      const int unit = high * lane_units + low, channel = (first_unit_ + unit) * unit_;
      const int w = first_w + vector * run;
      const bool is_there = row.from != grouped_nowhere && has_column(w);
      const Stored* const from =
          params_.x +
          (is_there ? row.from + w * params_.shape.columns.x_step + channel * params_.shape.x_c
                    : 0);
      const int channels = is_there ? params_.channels - channel : 0;
      Words of[unit_];
#pragma unroll
      for (int i = 0; i < unit_; ++i)
        of[i] = i < channels ? __ldg(reinterpret_cast<const Words*>(from + i * params_.shape.x_c))
                             : Words{};
      char* const to = patch_ + row.to + grouped_unit_bytes * unit;
#pragma unroll
      for (int i = 0; i < run; ++i) {
        const int of_patch = w + i - tile_.w;
        if (static_cast<unsigned>(of_patch) >= static_cast<unsigned>(params_.under_w.value()))
          continue;
        *reinterpret_cast<uint4*>(to + grouped_unit_bytes * grouped_column_at(params_, of_patch)) =
            is_there ? pixel_of(of, i) : outside();
      }
    }
  }
  /// A pixel of the runs of a unit's channels.
  template <class Words>
  __device__ static uint4 pixel_of(const Words (&of)[unit_], int pixel) {
    if constexpr (unit_ == 4)
      return rounded(
          {word(of[0], pixel), word(of[1], pixel), word(of[2], pixel), word(of[3], pixel)});
    else
      return {pair(of[0], of[1], pixel), pair(of[2], of[3], pixel), pair(of[4], of[5], pixel),
              pair(of[6], of[7], pixel)};
  }
  __device__ static uint4 rounded(const uint4& of) {
    const auto to = [](std::uint32_t bits) {
      return __float_as_uint(to_tf32(__uint_as_float(bits)));
    };
    return {to(of.x), to(of.y), to(of.z), to(of.w)};
  }
  /// The elements of a pixel of two channels' runs.
  template <class Words>
  __device__ static std::uint32_t pair(const Words& a, const Words& b, int pixel) {
    if constexpr (sizeof(Words) == 2) {
      return a | std::uint32_t{b} << 16;
    } else {
      constexpr unsigned first_halves = 0x5410, second_halves = 0x7632;
      return __byte_perm(word(a, pixel / 2), word(b, pixel / 2),
                         pixel % 2 == 0 ? first_halves : second_halves);
    }
  }
  __device__ static std::uint32_t word(std::uint32_t of, int) { return of; }
  __device__ static std::uint32_t word(const uint2& of, int i) { return i == 0 ? of.x : of.y; }
  __device__ static std::uint32_t word(const uint4& of, int i) {
    return i == 0 ? of.x : i == 1 ? of.y : i == 2 ? of.z : of.w;
  }

  const Params& params_;
  const GroupedTile& tile_;
  const GroupedRow* rows_;
  char* patch_;
  int first_unit_;
};

}  // namespace plumb::cuda
