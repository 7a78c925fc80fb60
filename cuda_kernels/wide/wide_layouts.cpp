// Which taps become channels, which groups are joined, where packed filters lie, and how x reaches
// the copy engine.
#include <algorithm>
#include <utility>
#include <vector>

#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/wide/wide.hpp"
#include "cuda_kernels/wide/wide_axes.hpp"

namespace plumb::cuda {

WideGroups::WideGroups(const ConvProblem& p, const WideClass& of)
    : own_channels(static_cast<int>(p.c / p.groups)),
      own_filters(static_cast<int>(p.k / p.groups)) {
  constexpr std::int64_t narrowest_tile = 64, max_channels = 64;
  const std::int64_t all = p.groups, c = own_channels, k = own_filters;
  std::int64_t best = 1, least = 0;
  // Of equal costs the most groups: they share the pixels that a tile loads.
  for (std::int64_t joined = 1; joined == 1 || (joined <= all && joined * c <= max_channels);
       ++joined) {
    if (all % joined != 0) continue;
    const std::int64_t cost = all / joined * ceil_div(joined * k, narrowest_tile) *
                              ceil_div(joined * c, std::int64_t{of.step_channels()});
    if (joined == 1 || cost <= least) best = joined, least = cost;
  }
  count = static_cast<int>(all / best);
  channels = static_cast<int>(best * c), filters = static_cast<int>(best * k);
}

WideFold::WideFold(const ConvProblem& p, int folded)
    : axes(folded), channels(static_cast<int>(p.c / p.groups)) {
  const std::int64_t all[3] = {p.s, p.r, p.t};
  for (int axis = 0; axis < 3; ++axis)
    if (folds(axis)) taps[axis] = static_cast<int>(all[axis]);
}

ConvProblem wide_product(const ConvProblem& problem, const WideFold& fold) {
  ConvProblem p = problem;
  if (fold.axes == 0) return p;
  const std::int64_t outputs[3] = {p.q(), p.p(), p.z()};
  for (const int taps : fold.taps) p.c *= taps;
  if (fold.folds(0)) p.w = outputs[0], p.s = p.stride.w = p.dilation.w = 1;
  if (fold.folds(1)) p.h = outputs[1], p.r = p.stride.h = p.dilation.h = 1;
  if (fold.folds(2)) p.d = outputs[2], p.t = p.stride.d = p.dilation.d = 1;
  if (fold.folds(0)) p.padding.left = p.padding.right = 0;
  if (fold.folds(1)) p.padding.top = p.padding.bottom = 0;
  if (fold.folds(2)) p.padding.front = p.padding.back = 0;
  p.x_strides = dense_strides(p.x_extents()), p.w_strides = p.y_strides = {};
  return p;
}

WideFilters::WideFilters(const ConvProblem& problem, const WideClass& arithmetic, int folded_axes)
    : WideFilters(wide_product(problem, WideFold(problem, folded_axes)), arithmetic,
                  WideFold(problem, folded_axes)) {}

WideFilters::WideFilters(const ConvProblem& p, const WideClass& arithmetic, const WideFold& of_taps)
    : of(arithmetic),
      fold(of_taps),
      groups(p, arithmetic),
      taps{static_cast<int>(p.s), static_cast<int>(p.r), static_cast<int>(p.t)},
      channel_blocks(static_cast<int>(ceil_div(groups.channels, of.step_channels()))),
      rows(static_cast<int>(ceil_div(groups.filters, swizzle_rows)) * swizzle_rows) {}

std::size_t WideFilters::bytes() const {
  return static_cast<std::size_t>(of.products == 1 ? plane_bytes()
                                                   : scales_at() + std::int64_t{filters()} * 4);
}

bool lies_for_copies(const ConvProblem& p, const WideFilters& filters) {
  const std::int64_t unit = filters.of.unit(), bytes = filters.of.operand_bytes();
  // Operands that are scaled are made from x.
  if (filters.of.scales() || filters.fold.axes != 0) return false;
  if (p.c > 1 && p.x_strides[1] != 1) return false;
  // A box begins at 16 aligned bytes.
  if (filters.groups.count > 1 && filters.groups.channels % unit != 0) return false;
  const Extents extents = p.x_extents();
  for (int i = 0; i < extents.rank(); ++i) {
    const std::int64_t stride = p.x_strides[i];
    if (i == 1 || extents[i] == 1) continue;
    if (stride <= 0 || stride % unit != 0 || stride > max_tensor_map_stride / bytes) return false;
  }
  return true;
}

namespace {

/// Of images in workspace, for the few x that are not aligned: enough for the device to be busy.
constexpr std::int64_t seldom_bytes = 16 << 20;

/// Says whether an image's elements follow each other in memory, in whatever order.
bool is_dense_image(const ConvProblem& p) {
  const Extents extents = p.x_extents();
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // strides and extents
  for (int i = 1; i < extents.rank(); ++i)
    if (extents[i] > 1) axes.emplace_back(p.x_strides[i], extents[i]);
  std::ranges::sort(axes);
  std::int64_t dense = 1;
  for (const auto& [stride, extent] : axes) {
    if (stride != dense) return false;
    dense *= extent;
  }
  return true;
}

/// Says whether pixels follow each other, each `step` behind the one before; the innermost axis
/// that has several says how far.
bool lie_in_one_row(const Extents& extents, const Strides& strides, std::int64_t& step) {
  std::int64_t next = 0;
  bool met = false;
  for (int i = extents.rank() - 1; i >= 2; --i) {
    if (extents[i] == 1) continue;
    if (!met) step = strides[i];
    if (met && strides[i] != next) return false;
    next = strides[i] * extents[i];
    met = true;
  }
  return met && next != 0;
}

/// Returns how many bytes of a channel's pixels can be moved at once, by strides alone.
int vector_of_planes(const ConvProblem& p, const WideFilters& filters) {
  std::int64_t step = 0;
  const std::int64_t bytes = filters.of.operand_bytes();
  if (filters.of.scales() || filters.fold.axes != 0 || p.groups != 1 || bytes > 4 ||
      !lie_in_one_row(p.x_extents(), p.x_strides, step) || step != 1)
    return 0;
  for (const int vector : {16, 8, 4}) {
    const auto fits = [&](std::int64_t extent, std::int64_t stride) {
      return extent == 1 || stride * bytes % vector == 0;
    };
    if (p.d * p.h * p.w * bytes % vector == 0 && fits(p.c, p.x_strides[1]) &&
        fits(p.n, p.x_strides[0]))
      return vector;
  }
  return 0;
}

}  // namespace

WideInput::WideInput(const ConvProblem& problem, const WideFilters& filters)
    : WideInput(!lies_for_copies(problem, filters), wide_product(problem, filters.fold), filters) {
  if (filters.fold.axes != 0)
    region = WideRegion(problem, filters, plane_channels() * element_bytes);
  if (repacks) plane_vector = vector_of_planes(problem, filters);
}

void WideInput::be_seldom() {
  const std::int64_t fitting = std::max<std::int64_t>(seldom_bytes / image_bytes(), 1);
  images = static_cast<int>(std::min<std::int64_t>(fitting, images));
}

WideRegion::WideRegion(const ConvProblem& problem, const WideFilters& filters, int pixel_bytes) {
  if (problem.groups != 1) return;
  // So that several blocks share a multiprocessor, and a thread has a few units of 16 bytes.
  constexpr std::int64_t max_bytes = 40 << 10, units_of_block = 2048, max_lines = 16, least = 8;
  const WideImageAxes x(problem);
  const WideFold& fold = filters.fold;
  const ConvProblem product = wide_product(problem, fold);
  const auto under = [&](int axis, std::int64_t outputs) {
    const WideImageAxis& of = x.of[axis];
    if (!fold.folds(axis)) return outputs;
    return (outputs - 1) * of.stride + std::int64_t{of.taps - 1} * of.dilation + 1;
  };
  const std::int64_t planes = fold.folds(2) ? x.of[2].taps : 1;
  const std::int64_t element = static_cast<std::int64_t>(size_in_bytes(problem.dtype));
  const std::int64_t terms = std::int64_t{pixel_bytes} / filters.of.operand_bytes() * 4;
  const std::int64_t pixels = ceil_div(units_of_block, std::int64_t{pixel_bytes} / 16);
  std::int64_t wide = std::clamp<std::int64_t>(product.w, 1, std::max(pixels, least));
  std::int64_t high = std::clamp<std::int64_t>(pixels / wide, 1, std::min(product.h, max_lines));
  const auto bytes = [&] {
    // Extents are below 2^31, and a region that fits is small.
    return static_cast<double>(terms) + static_cast<double>(planes * element * problem.c) *
                                            static_cast<double>(under(1, high)) *
                                            static_cast<double>(under(0, wide));
  };
  while (bytes() > max_bytes && high > 1) high = ceil_div(high, std::int64_t{2});
  while (bytes() > max_bytes && wide > least) wide = ceil_div(wide, std::int64_t{2});
  if (bytes() > max_bytes) return;
  lines = static_cast<int>(high), columns = static_cast<int>(wide);
  rows = static_cast<int>(under(1, high)), span = static_cast<int>(under(0, wide));
  shared_bytes = static_cast<int>(bytes());
  image_is_dense = is_dense_image(problem);
}

WideInput::WideInput(bool always, const ConvProblem& p, const WideFilters& filters)
    : repacks(always),
      pixels(static_cast<int>(p.d * p.h * p.w)),
      group_channels(static_cast<int>(ceil_div(filters.groups.channels, filters.of.unit())) *
                     filters.of.unit()),
      groups(filters.groups.count),
      planes(filters.of.planes()),
      element_bytes(filters.of.operand_bytes()) {
  constexpr std::int64_t max_bytes = 1 << 30;
  const std::int64_t fitting = (repacks ? max_bytes : seldom_bytes) / image_bytes();
  images = static_cast<int>(std::clamp<std::int64_t>(fitting, 1, std::max<std::int64_t>(p.n, 1)));
  parts = std::min(pixel_tiles() * channel_tiles(), wide_most_parts);
}

bool lies_across(const ConvProblem& p, const WideFilters& filters) {
  if (filters.of.scales() || filters.fold.axes != 0 || p.groups != 1 || p.n == 0) return false;
  // A stride has no pixel of y for each of x.
  const bool pointwise = p.t * p.r * p.s == 1 && p.padding == Padding{} && p.z() == p.d &&
                         p.p() == p.h && p.q() == p.w;
  const WideMapAxes axes(p);
  const bool dense =
      axes.axis[0].step() == 1 && axes.axis[1].step() == 1 && axes.axis[2].step() == 1;
  std::int64_t of_x = 0, of_y = 0;
  if (!pointwise || !dense || !lie_in_one_row(p.x_extents(), p.x_strides, of_x) || of_x != 1 ||
      !lie_in_one_row(p.y_extents(), p.y_strides, of_y))
    return false;
  const auto fits = [&filters](std::int64_t extent, std::int64_t stride) {
    return extent == 1 || (stride > 0 && stride % filters.of.unit() == 0 &&
                           stride <= max_tensor_map_stride / filters.of.operand_bytes());
  };
  // Tiles of an image are filled up to a whole one.
  constexpr double max_pixels = 1 << 30;
  const double pixels = static_cast<double>(p.n) * (static_cast<double>(p.d * p.h * p.w) + 256);
  return fits(p.c, p.x_strides[1]) && fits(p.n, p.x_strides[0]) && pixels < max_pixels;
}

ConvProblem flat_problem(const ConvProblem& problem) {
  std::int64_t of_x = 1, of_y = 1;
  lie_in_one_row(problem.x_extents(), problem.x_strides, of_x);
  lie_in_one_row(problem.y_extents(), problem.y_strides, of_y);
  const std::int64_t pixels = problem.d * problem.h * problem.w;
  ConvProblem p;
  p.direction = problem.direction, p.dtype = problem.dtype;
  p.n = problem.n, p.c = problem.c, p.k = problem.k, p.w = pixels;
  p.h = p.r = p.s = 1;
  p.x_strides = {problem.x_strides[0], problem.x_strides[1], pixels * of_x, of_x};
  p.y_strides = {problem.y_strides[0], problem.y_strides[1], pixels * of_y, of_y};
  p.w_strides = dense_strides(p.w_extents());
  return p;
}

Im2colMap wide_across_map(const ConvProblem& p) {
  const auto bytes = static_cast<std::int64_t>(size_in_bytes(p.dtype));
  constexpr std::int64_t unit = tensor_map_alignment;
  // A stride along an extent of 1 may be any number: here it is that of a dense tensor.
  const std::int64_t plane = p.c > 1 ? p.x_strides[1] * bytes : ceil_div(p.w * bytes, unit) * unit;
  Im2colMap map{.axes = 1,
                .axis = {},
                .images = p.n,
                .image_stride_bytes = p.n > 1 ? p.x_strides[0] * bytes : plane * p.c,
                .channels_of_tensor = p.w,
                .element_bytes = static_cast<int>(bytes),
                .channels = wide_across_pixels(static_cast<int>(bytes)),
                .pixels = swizzle_row_bytes / static_cast<int>(bytes)};
  map.axis[0] = {.extent = p.c, .stride_bytes = plane, .lower = 0, .upper = 0, .step = 1};
  return map;
}

Im2colMap wide_im2col(const ConvProblem& problem, const WideFilters& filters,
                      const WideInput* repacked) {
  const ConvProblem p = wide_product(problem, filters.fold);
  const WideMapAxes axes(p);
  const std::int64_t bytes = filters.of.operand_bytes(), unit = tensor_map_alignment;
  Im2colMap map{.axes = axes.count,
                .axis = {},
                .images = std::max<std::int64_t>(p.n, 1),
                .channels_of_tensor =
                    repacked ? std::int64_t{repacked->planes} * repacked->plane_channels() : p.c,
                .element_bytes = static_cast<int>(bytes),
                .channels = filters.of.step_channels()};
  // A stride along an extent of 1 may be any number: here it is that of a dense tensor.
  std::int64_t dense = repacked ? repacked->pixel_bytes() : ceil_div(p.c * bytes, unit) * unit;
  for (int i = 0; i < axes.count; ++i) {
    const WideMapAxis& of = axes.axis[i];
    const std::int64_t stride = of.extent > 1 && !repacked ? of.x_stride * bytes : dense;
    map.axis[i] = {.extent = of.extent,
                   .stride_bytes = stride,
                   .lower = static_cast<int>(of.lower()),
                   .upper = static_cast<int>(of.upper()),
                   .step = static_cast<int>(of.step())};
    dense = stride * of.extent;
  }
  map.image_stride_bytes = p.n > 1 && !repacked ? p.x_strides[0] * bytes : dense;
  return map;
}

}  // namespace plumb::cuda
