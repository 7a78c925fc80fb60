// Which convolutions the kernel takes, and the tiles that it cuts them into.
#include <algorithm>
#include <limits>
#include <string>

#include "cuda_kernels/cost/wide.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/wide/wide.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

/// One axis of the problem as a tensor map has it, and the dimension of the tensors.
struct Axis {
  const char* name;
  std::int64_t extent, taps, outputs, stride, dilation, before, x_stride;

  // A stride to no second output and a dilation of one tap move nothing and may be any number.
  std::int64_t step() const { return outputs > 1 ? stride : 1; }
  std::int64_t reach() const { return taps > 1 ? (taps - 1) * dilation : 0; }
  std::int64_t lower() const { return -before; }
  std::int64_t upper() const { return lower() + (outputs - 1) * step() - (extent - 1); }
  bool is_plain() const { return extent == 1 && taps == 1 && outputs == 1 && before == 0; }
};

struct Axes {
  int count;  ///< of the map
  Axis axis[3];

  explicit Axes(const ConvProblem& p) {
    const Strides& x = p.x_strides;
    const int rank = x.rank();
    axis[0] = {"columns", p.w, p.s, p.q(), p.stride.w, p.dilation.w, p.padding.left, x[rank - 1]};
    axis[1] = {"rows", p.h, p.r, p.p(), p.stride.h, p.dilation.h, p.padding.top, x[rank - 2]};
    axis[2] = {
        "planes", p.d, p.t, p.z(), p.stride.d, p.dilation.d, p.padding.front, rank == 5 ? x[2] : 0};
    count = p.has_depth() ? 3 : axis[1].is_plain() ? 1 : 2;
  }
};

Support refuse(Reason reason, std::string sentence) { return {reason, std::move(sentence)}; }

std::string text(std::int64_t value) { return std::to_string(value); }

Support supports_strides(const ConvProblem& p) {
  constexpr std::int64_t of_units = tensor_map_alignment / 2;  // elements
  const Extents extents = p.x_extents();
  if (p.c > 1 && p.x_strides[1] != 1)
    return refuse(Reason::layout, "channels of x " + text(p.x_strides[1]) +
                                      " elements apart; expected side by side (N H W C)");
  for (int i = 0; i < extents.rank(); ++i) {
    const std::int64_t stride = p.x_strides[i];
    if (i == 1 || extents[i] == 1) continue;
    if (stride <= 0 || stride % of_units != 0 || 2 * stride > max_tensor_map_stride)
      return refuse(Reason::layout, "a stride of x of " + text(stride) +
                                        " elements; expected a positive multiple of " +
                                        text(of_units) + " below 2^39");
  }
  return {};
}

Support supports_axis(const Axis& axis, int axes) {
  const auto refuse_axis = [&](const std::string& what) {
    return refuse(Reason::geometry, std::string(axis.name) + ": " + what);
  };
  const std::int64_t corner = im2col_corner[axes];
  for (const std::int64_t at : {axis.lower(), axis.upper()})
    if (at < -corner || at >= corner)
      return refuse_axis("first taps lie from " + text(axis.lower()) + " to " + text(axis.upper()) +
                         " off the image's edges; expected within " + text(-corner) + " and " +
                         text(corner - 1));
  if (axis.reach() >= im2col_offset[axes])
    return refuse_axis("the last tap " + text(axis.reach()) + " behind the first; expected below " +
                       text(im2col_offset[axes]));
  if (axis.step() > max_im2col_step)
    return refuse_axis("a stride of " + text(axis.step()) + "; expected at most " +
                       text(max_im2col_step));
  return {};
}

bool is_compiled() {
#ifdef PLUMB_CUDA_SM90A
  return true;
#else
  return false;
#endif
}

std::int64_t pixels_of(const ConvProblem& p) { return p.n * p.z() * p.p() * p.q(); }

}  // namespace

WideFilters::WideFilters(const ConvProblem& p)
    : taps{static_cast<int>(p.s), static_cast<int>(p.r), static_cast<int>(p.t)},
      channel_blocks(static_cast<int>(ceil_div(p.c, wide_channels))),
      rows(static_cast<int>(ceil_div(p.k, swizzle_rows)) * swizzle_rows) {}

std::size_t WideTiles::sums_bytes(const WideFilters& filters) const {
  if (splits == 1) return 0;
  return static_cast<std::size_t>(splits) * static_cast<std::size_t>(pixels) * filters.rows *
         sizeof(float);
}

Support supports_wide(const ConvProblem& p, DType dtype, const DeviceInfo& device) {
  if (Support stored = supports_dtypes({dtype}, p); !stored) return stored;
  if (!is_compiled() || device.compute_major != 9)
    return refuse(Reason::device_limit, "no wgmma; expected a device and a build of sm_90a");
  if (p.groups != 1) return refuse(Reason::geometry, text(p.groups) + " groups; expected 1");
  if (p.pool != Pool::none) return refuse(Reason::geometry, "pools; expected none");
  if (p.boundary != Boundaries{})
    return refuse(Reason::geometry, "a boundary other than zeros; expected zeros");
  if (Support strides = supports_strides(p); !strides) return strides;
  const Axes axes(p);
  for (int i = 0; i < axes.count; ++i)
    if (Support axis = supports_axis(axes.axis[i], axes.count); !axis) return axis;
  // Numbers of pixels, steps and filters are kept in 32 bits, with room for a tile beyond the last.
  constexpr double most = 0x7fff0000;
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double pixels = number(p.n) * number(p.z()) * number(p.p()) * number(p.q());
  const double taps = number(p.t) * number(p.r) * number(p.s);
  const double tiles = pixels * number(p.k) / (64 * 64);
  for (const double count : {pixels, taps * number(p.c), number(p.k), number(p.n), tiles})
    if (count >= most)
      return refuse(Reason::too_large, text(static_cast<std::int64_t>(std::min(count, 1e18))) +
                                           " pixels, terms, filters or tiles; expected below 2^31");
  return {};
}

bool takes_vectors(const ConvProblem& p, const void* y) {
  constexpr std::int64_t vector = 8, bytes = 16;
  const Extents extents = p.y_extents();
  bool aligned =
      p.k % vector == 0 && p.y_strides[1] == 1 && reinterpret_cast<std::uintptr_t>(y) % bytes == 0;
  for (int i = 0; i < extents.rank(); ++i)
    aligned = aligned && (i == 1 || extents[i] == 1 || p.y_strides[i] % vector == 0);
  return aligned;
}

Im2colMap wide_im2col(const ConvProblem& p) {
  const Axes axes(p);
  constexpr std::int64_t element_bytes = 2, unit = tensor_map_alignment;
  Im2colMap map{.axes = axes.count,
                .images = std::max<std::int64_t>(p.n, 1),
                .channels_of_tensor = p.c,
                .element_bytes = element_bytes,
                .channels = wide_channels};
  // A stride along an extent of 1 may be any number: here it is that of a dense tensor.
  std::int64_t dense = ceil_div(p.c * element_bytes, unit) * unit;
  for (int i = 0; i < axes.count; ++i) {
    const Axis& of = axes.axis[i];
    const std::int64_t stride = of.extent > 1 ? of.x_stride * element_bytes : dense;
    map.axis[i] = {.extent = of.extent,
                   .stride_bytes = stride,
                   .lower = static_cast<int>(of.lower()),
                   .upper = static_cast<int>(of.upper()),
                   .step = static_cast<int>(of.step())};
    dense = stride * of.extent;
  }
  map.image_stride_bytes = p.n > 1 ? p.x_strides[0] * element_bytes : dense;
  return map;
}

WideTiles tile_wide(const ConvProblem& problem, const DeviceInfo& device, WideChoice choice) {
  const WideFilters filters(problem);
  const std::int64_t pixels = pixels_of(problem);
  const int steps = filters.steps();
  constexpr int max_splits = 16, min_steps = 4;
  WideTiles best{.seconds = std::numeric_limits<double>::infinity()};
  for (int shape = 0; shape < wide_shape_count; ++shape) {
    if (choice.shape >= 0 && choice.shape != shape) continue;
    const WideShape& of = wide_shapes[shape];
    WideTiles tiles{.shape = shape,
                    .m_groups = static_cast<int>(ceil_div(pixels, std::int64_t{of.m} * of.cluster)),
                    .n_tiles = static_cast<int>(ceil_div(filters.rows, of.n)),
                    .pixels = pixels};
    // Splits are for tiles that do not fill the device.
    const int wanted = std::min(choice.splits, steps);
    const bool fills = tiles.works() * of.cluster >= device.units;
    const int most = choice.splits > 0 ? wanted
                     : fills           ? 1
                                       : std::clamp(steps / min_steps, 1, max_splits);
    for (int splits = std::max(wanted, 1); splits <= most; ++splits) {
      tiles.splits = splits;
      tiles.seconds = wide_seconds(problem, device,
                                   {.m = of.m,
                                    .n = of.n,
                                    .cluster = of.cluster,
                                    .works = static_cast<double>(tiles.works()),
                                    .steps = static_cast<double>(ceil_div(steps, splits)),
                                    .splits = static_cast<double>(splits),
                                    .sums_bytes = static_cast<double>(tiles.sums_bytes(filters))});
      if (tiles.seconds < best.seconds) best = tiles;
    }
  }
  return best;
}

}  // namespace plumb::cuda
