// What the tests of the operators around convolution share: running one on a device, the bounds of
// its errors, and loops in double.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "plumb/nn.hpp"
#include "plumb/plumb.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::nn {

using namespace plumb;

using Values = std::vector<double>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

/// Half the distance of 1 and its successor, in the stored type and in the one computed in.
inline double rounding(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
  }
  return 0;
}
inline double computed_rounding(DType dtype) { return dtype == DType::f64 ? 0x1p-53 : 0x1p-24; }

/// What storing `y` may add to an error, subnormal f16 included.
inline double stored_error(DType dtype, double y) {
  return rounding(dtype) * std::abs(y) + (dtype == DType::f16 ? 0x1p-25 : 1e-37);
}

/// Runs `operate(queue, x, y)` on the device, and brings y back.
template <class F>
void on_device(const Device& device, HostTensor& x, HostTensor& y, const F& operate) {
  Queue queue(device);
  const DeviceTensor device_x(queue, x), device_y(queue, y);
  operate(queue, ConstTensorView(device_x), TensorView(device_y));
  device_y.read_back(queue, y);
  CHECK(y.surroundings_untouched());
}

/// The f32 results, in order, of an operator that is given dense tensors.
template <class F>
Values results(const Device& device, const Extents& x_extents, const Values& x,
               const Extents& y_extents, const F& operate) {
  HostTensor xs = HostTensor::of(DType::f32, x_extents, x), ys(DType::f32, y_extents);
  on_device(device, xs, ys, operate);
  return ys.values();
}

/// Whether the lists are equal, NaN being equal to NaN.
inline bool same(const Values& a, const Values& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double u, double v) { return u == v || (std::isnan(u) && std::isnan(v)); });
}

/// Ways for a tensor of rank 3 to 5 to lie in memory: dense, channels last, with gaps, backwards.
inline std::vector<Strides> layouts(const Extents& extents) {
  Strides backwards = dense_strides(extents);
  for (int i = 0; i < extents.rank(); ++i) backwards[i] *= -1;
  Dims in_order = extents, channels_last = extents;
  for (int i = 0; i < extents.rank(); ++i) {
    in_order[i] = i;
    channels_last[i] = i == 0 ? 0 : i + 1 < extents.rank() ? i + 1 : 1;
  }
  return {dense_strides(extents), strides_in_order(extents, channels_last),
          strides_in_order(extents, in_order, 3), backwards};
}

inline Values pooled(const Device& device, const Extents& extents, const Values& x,
                     const PoolGeometry& geometry) {
  return results(device, extents, x, pooled_extents(extents, geometry),
                 [&](Queue& queue, const ConstTensorView& from, const TensorView& to) {
                   pool(queue, from, to, geometry);
                 });
}

/// One output of pooling in double, and the mean of the magnitudes that went into it.
struct Pooled {
  double value, magnitude;
  int count;
};
/// Of images of one to three axes: `index` and x have the same rank.
inline Pooled pool_at(const HostTensor& x, const PoolGeometry& g, const Dims& index) {
  // What moves along each axis of the image, the last axis last.
  const struct {
    std::int64_t window, stride, dilation, before, after;
  } all[] = {{g.window.d, g.stride.d, g.dilation.d, g.padding.front, g.padding.back},
             {g.window.h, g.stride.h, g.dilation.h, g.padding.top, g.padding.bottom},
             {g.window.w, g.stride.w, g.dilation.w, g.padding.left, g.padding.right}};
  const int rank = index.rank();
  Extents window = index;
  for (int i = 0; i < rank; ++i) window[i] = i < 2 ? 1 : all[i + 3 - rank].window;
  double most = -infinity, sum = 0, magnitude = 0;
  int inside = 0, padded = 0;
  for_each_index(window, [&](const Dims& tap) {
    Dims at = index;
    bool is_inside = true, is_padded = true;
    for (int i = 2; i < rank; ++i) {
      const auto& axis = all[i + 3 - rank];
      const std::int64_t extent = x.extents()[i];
      at[i] = index[i] * axis.stride + tap[i] * axis.dilation - axis.before;
      is_padded = is_padded && at[i] < extent + axis.after;
      is_inside = is_inside && at[i] >= 0 && at[i] < extent;
    }
    padded += is_padded;
    if (!is_inside) return;
    ++inside;
    const double value = x.at(at);
    most = std::isnan(most) || value <= most ? most : value;
    sum += value;
    magnitude += std::abs(value);
  });
  const int divisor = g.count_padding ? padded : inside;
  if (g.kind == PoolKind::max) return {most, 0, inside};
  return {sum / divisor, magnitude / divisor, inside};
}

/// Bilinear interpolation at one output, in double.
inline double resized_at(const HostTensor& x, const HostTensor& y, const Dims& index) {
  const auto place = [&](int side) {
    const auto inputs = static_cast<double>(x.extents()[side]);
    const double centre =
        (static_cast<double>(index[side]) + 0.5) * inputs / static_cast<double>(y.extents()[side]);
    return std::min(std::max(centre - 0.5, 0.0), inputs - 1);
  };
  const double h = place(2), w = place(3);
  const auto top = static_cast<std::int64_t>(h), left = static_cast<std::int64_t>(w);
  const std::int64_t bottom = std::min(top + 1, x.extents()[2] - 1);
  const std::int64_t right = std::min(left + 1, x.extents()[3] - 1);
  const double down = h - static_cast<double>(top), across = w - static_cast<double>(left);
  const auto row = [&](std::int64_t i) {
    return (1 - across) * x.at({index[0], index[1], i, left}) +
           across * x.at({index[0], index[1], i, right});
  };
  return (1 - down) * row(top) + down * row(bottom);
}

}  // namespace plumb_test::nn
