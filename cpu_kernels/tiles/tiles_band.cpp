#include "cpu_kernels/tiles/tiles_band.hpp"

#include <algorithm>

#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/primitives/ceil_div.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

std::size_t bias_bytes(const TilesPlan& plan) {
  return padded(plan.packed_tiles() * tile_side * int64_t{sizeof(float)});
}

}  // namespace

std::size_t slot_bytes(const TilesPlan& plan) { return bias_bytes(plan) + plan.slab_bytes; }

TilesBand::TilesBand(const ConvLaunch& launch, const TilesPlan& plan, const TileKernels& kernels,
                     std::byte* slot)
    : launch_(launch),
      p_(launch.problem),
      plan_(plan),
      kernels_(kernels),
      x_(input_strides(launch.problem)),
      y_(output_strides(launch.problem)),
      bias_(reinterpret_cast<float*>(slot)),
      slab_(reinterpret_cast<BFloat16*>(slot + bias_bytes(plan))) {
  kernels_.begin();
}

void TilesBand::run(int64_t task) {
  const int64_t part = task % plan_.parts;
  group_ = task / plan_.parts % p_.groups;
  const int64_t band = task / plan_.parts / p_.groups;
  first_row_ = band % plan_.bands * plan_.rows;
  z_ = band / plan_.bands % plan_.output_planes;
  n_ = plan_.by_images ? 0 : band / plan_.bands / plan_.output_planes;
  rows_ = std::min(plan_.rows, plan_.output_rows - first_row_);
  filters_ = static_cast<const BFloat16*>(launch_.filters) +
             group_ * plan_.packed_tiles() * plan_.packed_elements();
  load_bias();
  if (!plan_.in_place) load_slab();
  const int64_t begin = plan_.blocks() * part / plan_.parts,
                end = plan_.blocks() * (part + 1) / plan_.parts;
  if (plan_.positions_outside)
    run_by_positions(begin, end);
  else
    run_by_filters(begin, end);
}

/// Filters stay in the core's caches, and outputs of a position are stored one behind the other.
void TilesBand::run_by_positions(int64_t begin, int64_t end) {
  const int64_t all = position_blocks();
  for (int64_t i = 0; i < all; ++i) {
    take_positions(i);
    for (int64_t block = begin; block < end; ++block) run_block(block);
  }
}

void TilesBand::run_by_filters(int64_t begin, int64_t end) {
  const int64_t all = position_blocks();
  for (int64_t block = begin; block < end; ++block)
    for (int64_t i = 0; i < all; ++i) {
      take_positions(i);
      run_block(block);
    }
}

void TilesBand::load_bias() {
  const int64_t filters = plan_.packed_tiles() * tile_side;
  std::fill_n(bias_, filters, 0.0f);
  if (launch_.bias)
    load_row(static_cast<const BFloat16*>(launch_.bias) + group_ * plan_.group_k, 1, plan_.group_k,
             bias_);
}

/// The input under the band, or of its images.
void TilesBand::load_slab() {
  const auto* const x = static_cast<const BFloat16*>(launch_.x) + group_ * plan_.group_c * x_.c;
  BFloat16* slab = slab_;
  if (plan_.by_images)
    for (int64_t i = 0; i < rows_; ++i, slab += plan_.image_elements)
      load_rows(x + (first_row_ + i) * x_.n, 0, slab);
  else
    load_rows(x + n_ * x_.n, first_row_ * p_.stride.h, slab);
  BFloat16* const end = slab_ + plan_.slab_bytes / sizeof(BFloat16);
  slab = slab_ + (plan_.by_images ? rows_ : 1) * plan_.image_elements;
  std::fill(slab, end, BFloat16{});
}

/// Rows of an image from `first` on, counted from the padding's begin, with zeros where there is
/// none.
void TilesBand::load_rows(const BFloat16* image, int64_t first, BFloat16* row) const {
  const int64_t row_elements = plan_.row_elements();
  const int64_t step_h = plan_.pointwise ? p_.stride.h : 1;
  for (int64_t t = 0; t < p_.t; ++t) {
    const int64_t d = z_ * p_.stride.d + t * p_.dilation.d - p_.padding.front;
    for (int64_t i = 0; i < plan_.slab_rows; ++i, row += row_elements) {
      const int64_t h = first + i * step_h - p_.padding.top;
      if (d < 0 || d >= p_.d || h < 0 || h >= p_.h)
        std::fill_n(row, row_elements, BFloat16{});
      else
        load_slab_row(image + d * x_.d + h * x_.h, row);
    }
  }
}

void TilesBand::load_slab_row(const BFloat16* x, BFloat16* row) const {
  const int64_t c = plan_.group_c, step_w = plan_.pointwise ? p_.stride.w : 1;
  const int64_t begin = std::min(ceil_div(p_.padding.left, step_w), plan_.width);
  const int64_t end = std::clamp(ceil_div(p_.w + p_.padding.left, step_w), begin, plan_.width);
  std::fill_n(row, begin * c, BFloat16{});
  std::fill_n(row + end * c, (plan_.width - end) * c, BFloat16{});
  const BFloat16* const from = x + (begin * step_w - p_.padding.left) * x_.w;
  const int64_t x_w = step_w * x_.w;
  row += begin * c;
  if (x_.c == 1 && x_w == c) {
    std::copy_n(from, (end - begin) * c, row);
    return;
  }
  if (x_.c == 1) {
    for (int64_t i = 0; i < end - begin; ++i) std::copy_n(from + i * x_w, c, row + i * c);
    return;
  }
  if (x_w == 1 || x_w == 2)
    return kernels_.turn({.from = from, .step = x_.c, .channels = c, .apart = x_w}, end - begin,
                         row);
  // Squares, so that both sides stay in a few lines.
  constexpr int64_t side = 32;
  for (int64_t first = 0; first < end - begin; first += side)
    for (int64_t channel = 0; channel < c; channel += side)
      for (int64_t i = first; i < std::min(first + side, end - begin); ++i)
        for (int64_t j = channel; j < std::min(channel + side, c); ++j)
          row[i * c + j] = from[i * x_w + j * x_.c];
}

int64_t TilesBand::position_blocks() const {
  if (plan_.flat)
    return ceil_div((rows_ - 1) * plan_.row_places + plan_.output_columns, plan_.block_positions());
  return rows_ * ceil_div(plan_.output_columns, plan_.block_positions());
}

/// Positions are the places of a band, one row of them or many; with a slab a place is a pixel of
/// it, without one of x.
void TilesBand::take_positions(int64_t index) {
  const int64_t most = plan_.block_positions();
  if (!plan_.flat) {
    const int64_t in_row = ceil_div(plan_.output_columns, most);
    const int64_t row = index / in_row, q = index % in_row * most;
    step_ = plan_.place_elements;
    from_ = slab_ + row * plan_.stride_h * plan_.row_elements() + q * step_;
    return place(row * plan_.row_places + q, 0,
                 static_cast<int>(std::min(most, plan_.output_columns - q)));
  }
  const int64_t first = index * most;
  const int64_t count =
      std::min(most, (rows_ - 1) * plan_.row_places + plan_.output_columns - first);
  if (!plan_.in_place) {
    step_ = plan_.place_elements;
    from_ = slab_ + first * step_;
    return place(first, 0, static_cast<int>(count));
  }
  // A tile is not read beyond the last pixel: the block begins earlier.
  const int64_t pixels = plan_.by_images ? p_.n : p_.d * p_.h * p_.w;
  const int64_t pixel = (z_ * plan_.output_rows + first_row_) * plan_.output_columns + first;
  const int64_t before = std::max<int64_t>(0, pixel + std::max<int64_t>(count, tile_side) - pixels);
  step_ = plan_.by_images ? x_.n : x_.w;
  from_ = static_cast<const BFloat16*>(launch_.x) + n_ * x_.n + group_ * plan_.group_c +
          (pixel - before) * step_;
  place(first, static_cast<int>(before), static_cast<int>(count));
}

/// Outputs of the places [first, first + count), and of none for `before` positions before them.
void TilesBand::place(int64_t first, int before, int count) {
  first_ = first - before;
  positions_ = before + count;
  std::fill_n(y_at_, before, no_output);
  const int64_t y_row = plan_.by_images ? y_.n : y_.h;
  int64_t row = first / plan_.row_places, q = first % plan_.row_places;
  for (int i = before; i < positions_; ++i) {
    y_at_[i] = q < plan_.output_columns ? (first_row_ + row) * y_row + q * y_.w : no_output;
    if (++q == plan_.row_places) q = 0, ++row;
  }
}

int TilesBand::filters_of(int64_t block) const {
  return static_cast<int>(
      std::min(plan_.block_filters(), plan_.group_k - block * plan_.block_filters()));
}

/// The block's first filters.
const BFloat16* TilesBand::packed(int64_t block) const {
  return filters_ + block * plan_.block_filters() / tile_side * plan_.packed_elements();
}

void TilesBand::run_block(int64_t block) {
  const int filters = filters_of(block);
  const TileBlock tile{.slab = from_,
                       .step = step_,
                       .offsets = plan_.offsets.data(),
                       .steps = static_cast<int64_t>(plan_.offsets.size()),
                       .filters = packed(block),
                       .positions = positions_,
                       .filter_count = filters,
                       .sums = sums_};
  kernels_.multiply(tile);
  if (plan_.meets_zeros && kernels_.may_have_nan(tile)) sum_nans_again(block);
  const int64_t in_group = block * plan_.block_filters();
  const int64_t k = group_ * plan_.group_k + in_group;
  kernels_.store({.sums = sums_,
                  .bias = bias_ + in_group,
                  .y_at = y_at_,
                  .y = static_cast<BFloat16*>(launch_.y) + n_ * y_.n + z_ * y_.d + k * y_.c,
                  .y_k = y_.c,
                  .positions = positions_,
                  .filter_count = filters,
                  .accumulate = launch_.accumulate,
                  .relu = launch_.activation == Activation::relu});
}

/// Zeros of padding, or behind a run, may have met Inf.
void TilesBand::sum_nans_again(int64_t block) {
  const int filters = filters_of(block);
  for (int i = 0; i < positions_; ++i) {
    if (y_at_[i] == no_output) continue;
    for (int j = 0; j < filters; ++j)
      if (float& sum = sums_[i * block_side + j]; sum != sum) sum = sum_again(first_ + i, block, j);
  }
}

/// A sum by the definition.
float TilesBand::sum_again(int64_t place, int64_t block, int64_t filter) const {
  const int64_t in_band = first_row_ + place / plan_.row_places, q = place % plan_.row_places;
  const int64_t n = plan_.by_images ? in_band : n_, row = plan_.by_images ? 0 : in_band;
  const auto* const x =
      static_cast<const BFloat16*>(launch_.x) + n * x_.n + group_ * plan_.group_c * x_.c;
  const BFloat16* filters = packed(block) + filter / tile_side * plan_.packed_elements();
  float sum = 0;
  for (const TilesStep& step : plan_.steps) {
    const int64_t d = z_ * p_.stride.d + step.t * p_.dilation.d - p_.padding.front;
    const int64_t h = row * p_.stride.h + step.r * p_.dilation.h - p_.padding.top;
    for (int64_t i = 0; i < std::min<int64_t>(tile_terms, plan_.run_terms - step.term); ++i) {
      const int64_t s = step.run + (step.term + i) / plan_.group_c;
      const int64_t c = (step.term + i) % plan_.group_c;
      const int64_t w = q * p_.stride.w + s * p_.dilation.w - p_.padding.left;
      if (d < 0 || d >= p_.d || h < 0 || h >= p_.h || w < 0 || w >= p_.w) continue;
      const BFloat16 weight = filters[i / 2 * 2 * tile_side + filter % tile_side * 2 + i % 2];
      sum += widen(x[c * x_.c + d * x_.d + h * x_.h + w * x_.w]) * widen(weight);
    }
    filters += step_filters;
  }
  return sum;
}

}  // namespace plumb
