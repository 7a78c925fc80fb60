// ReLU, on every device that is there: cases worked by hand, and random ones against loops in
// double.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "nn_case.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::nn;

TEST_CASE("nn: relu by hand, NaN kept") {
  for (const Device& device : all_devices()) {
    CAPTURE(to_string(device.id()));
    const auto operate = [](auto& queue, auto from, auto to) { relu(queue, from, to); };
    const Values x{-1, 0, 2.5, nan_value, -infinity, infinity, -1e-40};
    CHECK(same(results(device, {7}, x, {7}, operate), {0, 0, 2.5, nan_value, 0, infinity, 0}));
  }
}

TEST_CASE("nn: relu of every dtype, rank and layout, also in place") {
  for (const Device& device : all_devices()) {
    Random random(13);
    for (const DType dtype : dtypes) {
      CAPTURE(to_string(device.id()), to_string(dtype));
      const Extents extents{3, 4, 5, 7};
      for (const Strides& x_strides : layouts(extents))
        for (const Strides& y_strides : layouts(extents)) {
          HostTensor x(dtype, extents, x_strides), y(dtype, extents, y_strides);
          x.fill([&] { return random.normal(); });
          on_device(device, x, y, [](auto& queue, auto from, auto to) { relu(queue, from, to); });
          Values expected = x.values();
          for (double& value : expected) value = std::max(value, 0.0);
          CHECK(y.values() == expected);
        }
      for (const Extents& other :
           {Extents{1}, Extents{50'000}, Extents{1, 3, 1, 5, 1, 2}, Extents{4, 0, 3}}) {
        HostTensor x(dtype, other), y(dtype, other);
        x.fill([&] { return random.normal(); });
        Values expected = x.values();
        for (double& value : expected) value = std::max(value, 0.0);
        on_device(device, x, y, [](auto& queue, auto from, auto to) { relu(queue, from, to); });
        CHECK(y.values() == expected);
        on_device(device, y, x, [](auto& queue, auto, auto to) { relu(queue, to, to); });
        CHECK(x.values() == expected);
      }
      HostTensor row = HostTensor::of(dtype, {1, 3}, {-1, 2, 3}), rows(dtype, {4, 3});
      on_device(device, row, rows, [](auto& queue, const ConstTensorView& from, auto to) {
        relu(queue, ConstTensorView(from.data(), from.dtype(), {4, 3}, from.device(), {0, 1}), to);
      });
      CHECK(rows.values() == Values{0, 2, 3, 0, 2, 3, 0, 2, 3, 0, 2, 3});
    }
  }
}
