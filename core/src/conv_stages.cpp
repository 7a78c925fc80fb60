#include "conv_stages.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "boundary_padding.hpp"
#include "ranks.hpp"
#include "tensor_bytes.hpp"

namespace plumb {
namespace {

constexpr PoolGeometry pool_2x2{.kind = PoolKind::max, .window = {2, 2}, .stride = {2, 2}};

/// What a slice may take of the workspace: on a GPU so much that writing it takes many times longer
/// than a launch, on the host about what its last cache holds.
double slice_limit_bytes(const DeviceInfo& device) {
  return device.id == host ? 32.0 * (1 << 20) : 256.0 * (1 << 20);
}

/// Strides of C and T as those of C T channels, or 0 where they are none.
std::int64_t merged(std::int64_t c, std::int64_t t, std::int64_t c_stride, std::int64_t t_stride) {
  if (t == 1) return c_stride;
  if (c == 1) return t_stride;
  return c_stride == t * t_stride ? t_stride : 0;
}

/// The strides of y where the planes of one image are images.
Strides of_planes(const Strides& y) { return {y[2], y[1], y[3], y[4]}; }

}  // namespace

ConvStages::ConvStages(const ConvProblem& problem, StagesWanted wanted, const DeviceInfo& device)
    : problem_(problem), wanted_(wanted), slice_(problem) {
  if (wanted_.depth) take_planes_as_images();
  if (wanted_.boundaries || copies_input_) take_padding_from_copy();
  if (stages_output()) {
    slice_.pool = Pool::none;
    slice_.y_strides = dense_strides(slice_.y_extents());
  }
  if (!none()) plan_slices(device);
}

/// The planes of the output of one image become images, and the planes under the filter channels.
/// Without padding along the depth they are where they lie if their strides make channels.
void ConvStages::take_planes_as_images() {
  const ConvProblem& p = problem_;
  planes_ = true;
  slice_.n = p.z();
  slice_.c = p.c * p.t;
  slice_.d = slice_.t = 1;
  slice_.stride.d = slice_.dilation.d = 1;
  slice_.padding.front = slice_.padding.back = 0;
  slice_.boundary.d = Boundary::zeros;
  slice_.y_strides = of_planes(p.y_strides);
  const std::int64_t x_channel = merged(p.c, p.t, p.x_strides[1], p.dilation.d * p.x_strides[2]);
  const bool inside = p.padding.front == 0 && p.padding.back == 0;
  copies_input_ = !inside || (x_channel == 0 && slice_.c > 1);
  planes_together_ = copies_input_ && p.groups == 1 && (p.dilation.d == 1 || p.t == 1) &&
                     (!wanted_.in_order || p.c == 1 || p.t == 1);
  if (!copies_input_)
    slice_.x_strides = {p.stride.d * p.x_strides[2], x_channel, p.x_strides[3], p.x_strides[4]};
  take_filters();
}

/// Filters whose taps along the depth are no channels as they lie are copied.
void ConvStages::take_filters() {
  const ConvProblem& p = problem_;
  const bool planes_first = planes_together_ && p.c > 1 && p.t > 1;
  const std::int64_t channel =
      planes_first ? 0 : merged(p.c / p.groups, p.t, p.w_strides[1], p.w_strides[2]);
  slice_.w_strides = {p.w_strides[0], channel, p.w_strides[3], p.w_strides[4]};
  if (channel != 0 || slice_.c == p.groups) return;
  slice_.w_strides = dense_strides(slice_.w_extents());
  filter_bytes_ = aligned(bytes_of(p.dtype, slice_.w_extents()));
}

/// The copy has the padding of all boundaries but zeros, which algorithms know, and lies dense.
void ConvStages::take_padding_from_copy() {
  copies_input_ = true;
  take_padding(slice_);
  slice_.x_strides = dense_strides(slice_.x_extents());
  if (planes_together_) slice_.x_strides[0] = problem_.stride.d * problem_.c * slice_.h * slice_.w;
}

/// The elements of a slice's copy.
std::int64_t ConvStages::copied_elements(const ConvProblem& slice) const {
  if (!planes_together_ || slice.n == 0) return element_count(slice.x_extents());
  const std::int64_t planes = (slice.n - 1) * problem_.stride.d + problem_.t;
  return element_count({planes, problem_.c, slice.h, slice.w});
}

/// One image or more. Slices of x as it lies begin at multiples of 16 bytes where the batch does,
/// as kernels with wide loads want it.
std::int64_t ConvStages::images_per_slice(const DeviceInfo& device) const {
  ConvProblem image = slice_;
  image.n = 1;
  double bytes = 1;
  if (copies_input_) {
    ConvProblem two = image;
    two.n = 2;  // what the second takes, which shares planes with the first
    bytes += static_cast<double>(copied_elements(two) - copied_elements(image)) *
             static_cast<double>(size_in_bytes(image.dtype));
  }
  if (stages_output()) bytes += static_cast<double>(bytes_of(image.dtype, image.y_extents()));
  if (!copies_input_ && !stages_output()) return slice_.n;
  const auto fitting = static_cast<std::int64_t>(
      std::min(slice_limit_bytes(device) / bytes, static_cast<double>(slice_.n)));
  const auto element = static_cast<std::int64_t>(size_in_bytes(slice_.dtype));
  const std::int64_t step = 16 / std::gcd(std::abs(slice_.x_strides[0]) * element, 16);
  return std::min(slice_.n, std::max(step, fitting / step * step));
}

void ConvStages::plan_slices(const DeviceInfo& device) {
  last_slice_ = slice_;
  const std::int64_t all = slice_.n;
  slice_.n = images_per_slice(device);
  last_slice_.n = slice_.n > 0 ? all % slice_.n : 0;
  if (copies_input_)
    input_bytes_ =
        aligned(static_cast<std::size_t>(copied_elements(slice_)) * size_in_bytes(slice_.dtype));
  if (stages_output()) output_bytes_ = aligned(bytes_of(slice_.dtype, slice_.y_extents()));
}

std::int64_t ConvStages::slices() const {
  if (slice_.n == 0) return 1;
  return planes_ ? problem_.n * (problem_.z() / slice_.n) : problem_.n / slice_.n;
}

std::int64_t ConvStages::last_slices() const {
  if (last_slice_.n == 0) return 0;
  return planes_ ? problem_.n : 1;
}

double ConvStages::seconds(const DeviceInfo& device) const {
  if (device.nominal_bytes_per_second <= 0 || none()) return 0;
  const auto count = static_cast<double>(slices() * slice_.n + last_slices() * last_slice_.n);
  const double images = count / std::max(1.0, static_cast<double>(slice_.n));
  double bytes = 0;
  // The launches' own estimates have x read and y written once; the copy has both once more.
  if (copies_input_) bytes += 2 * images * static_cast<double>(input_bytes_);
  if (stages_output())
    bytes += images * static_cast<double>(output_bytes_) +
             (wanted_.accumulate ? 2.0 : 1.0) *
                 static_cast<double>(bytes_of(problem_.dtype, problem_.y_extents()));
  return bytes / device.nominal_bytes_per_second;
}

void ConvStages::copy_filters(BackendQueue& queue, const DeviceInfo& device, const void* w,
                              void* filters) const {
  const ConvProblem& p = problem_;
  const Extents extents = p.w_extents();
  Strides strides = dense_strides(extents);
  if (planes_together_) strides[1] = p.r * p.s, strides[2] = p.c * p.r * p.s;
  queue.pad({.x = ConstTensorView(w, p.dtype, extents, device.id, p.w_strides),
             .y = TensorView(filters, p.dtype, extents, device.id, strides)});
}

Activation ConvStages::activation_of(const ConvLaunch& launch) const {
  return wanted_.accumulate ? Activation::none : launch.activation;
}

const void* ConvStages::input(BackendQueue& queue, const ConvLaunch& launch,
                              const ConvProblem& slice, std::int64_t image,
                              std::int64_t plane) const {
  const ConvProblem& p = problem_;
  const std::byte* const x = moved(launch.x, image * p.x_strides[0], p.dtype);
  if (!copies_input_) return planes_ ? moved(x, plane * slice_.x_strides[0], p.dtype) : x;
  const Triple before = padding_taken(p);
  PadLaunch pad{.begin = {0, -before.h, -before.w}, .boundary = p.boundary};
  Extents images = p.x_extents();
  images[0] = planes_ ? 1 : slice.n;
  pad.x = with_all_axes(ConstTensorView(x, p.dtype, images, launch.device.id, p.x_strides));
  if (!planes_) {
    if (p.has_depth()) pad.begin.d = -before.d;
    pad.y = with_all_axes(TensorView(launch.workspace, p.dtype, slice.x_extents(), launch.device.id,
                                     slice.x_strides));
    queue.pad(pad);
    return launch.workspace;
  }
  copy_planes(queue, launch, slice, pad, plane);
  return launch.workspace;
}

/// The planes under the filter of the slice's images, of which `plane` is the first.
void ConvStages::copy_planes(BackendQueue& queue, const ConvLaunch& launch,
                             const ConvProblem& slice, PadLaunch pad, std::int64_t plane) const {
  const ConvProblem& p = problem_;
  const std::int64_t rows = slice.h, columns = slice.w, whole = rows * columns;
  const auto copy = [&](std::int64_t first, std::int64_t begin, std::int64_t step,
                        std::int64_t planes, std::int64_t c_stride, std::int64_t d_stride) {
    pad.begin.d = begin;
    pad.step.d = step;
    pad.y = TensorView(moved(launch.workspace, first, p.dtype), p.dtype,
                       {1, p.c, planes, rows, columns}, launch.device.id,
                       {p.c * c_stride + planes * d_stride, c_stride, d_stride, columns, 1});
    queue.pad(pad);
  };
  const std::int64_t begin = plane * p.stride.d - p.padding.front;
  if (planes_together_)
    return copy(0, begin, 1, (slice.n - 1) * p.stride.d + p.t, whole, p.c * whole);
  // Image z has the plane z stride.d + t dilation.d - front of channel c as its channel (c, t).
  for (std::int64_t t = 0; t < p.t; ++t)
    copy(t * whole, begin + t * p.dilation.d, p.stride.d, slice.n, p.t * whole, slice.c * whole);
}

void* ConvStages::output(const ConvLaunch& launch, std::int64_t image, std::int64_t plane) const {
  if (stages_output()) return static_cast<std::byte*>(launch.workspace) + input_bytes_;
  return y_of(launch, image, plane);
}

void* ConvStages::y_of(const ConvLaunch& launch, std::int64_t image, std::int64_t plane) const {
  const std::int64_t along_depth = planes_ ? plane * problem_.y_strides[2] : 0;
  return moved(launch.y, image * problem_.y_strides[0] + along_depth, problem_.dtype);
}

/// Pools what the slice wrote to workspace, or adds it to y.
void ConvStages::finish(BackendQueue& queue, const ConvLaunch& launch, const ConvProblem& slice,
                        std::int64_t image, std::int64_t plane) const {
  if (!stages_output()) return;
  const ConvProblem& p = problem_;
  const DeviceId& device = launch.device.id;
  const ConstTensorView staged(static_cast<const std::byte*>(launch.workspace) + input_bytes_,
                               p.dtype, slice.y_extents(), device, slice.y_strides);
  void* const y = y_of(launch, image, plane);
  if (wanted_.pool) {
    Extents pooled = p.y_extents();
    pooled[0] = slice.n;
    queue.pool({.x = with_all_axes(staged),
                .y = with_all_axes(TensorView(y, p.dtype, pooled, device, p.y_strides)),
                .geometry = pool_2x2});
    return;
  }
  const Strides strides = planes_ ? of_planes(p.y_strides) : p.y_strides;
  const TensorView sums(y, p.dtype, slice.y_extents(), device, strides);
  queue.add(
      {.x = with_all_axes(staged), .y = with_all_axes(sums), .activation = launch.activation});
}

}  // namespace plumb
