// Softmax, on every device that is there: cases worked by hand, and random ones against loops in
// double.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "nn_case.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::nn;

TEST_CASE("nn: softmax by hand") {
  const auto operate = [](auto& queue, auto from, auto to) { softmax(queue, from, to); };
  for (const Device& device : all_devices()) {
    CAPTURE(to_string(device.id()));
    // exp gives 1, 2 and 5: eighths.
    const Values y = results(device, {1, 3}, {0, std::log(2.0), std::log(5.0)}, {1, 3}, operate);
    CHECK(std::abs(y[0] - 0.125) < 1e-6);
    CHECK(std::abs(y[1] - 0.25) < 1e-6);
    CHECK(std::abs(y[2] - 0.625) < 1e-6);
    CHECK(results(device, {2, 2}, {1e4, 1e4, -1e30, 5}, {2, 2}, operate) == Values{0.5, 0.5, 0, 1});
    CHECK(same(results(device, {2, 2}, {1, nan_value, -infinity, 0}, {2, 2}, operate),
               {nan_value, nan_value, 0, 1}));
  }
}

TEST_CASE("nn: softmax of every dtype and layout against loops in double") {
  for (const Device& device : all_devices()) {
    Random random(14);
    for (const DType dtype : dtypes)
      for (const Extents& extents : {Extents{5, 10}, Extents{3, 1}, Extents{2, 1000}})
        for (const Dims& order : {Dims{0, 1}, Dims{1, 0}})
          for (const std::int64_t gap : {0, 2}) {
            CAPTURE(to_string(device.id()), to_string(dtype), to_string(extents), gap);
            HostTensor x(dtype, extents, strides_in_order(extents, order, gap));
            HostTensor y(dtype, extents, strides_in_order(extents, {0, 1}, gap));
            x.fill([&] { return 3 * random.normal(); });
            on_device(device, x, y,
                      [](auto& queue, auto from, auto to) { softmax(queue, from, to); });
            bool right = true;
            for (std::int64_t n = 0; n < extents[0]; ++n) {
              double most = -infinity, sum = 0;
              for (std::int64_t c = 0; c < extents[1]; ++c) most = std::max(most, x.at({n, c}));
              for (std::int64_t c = 0; c < extents[1]; ++c) sum += std::exp(x.at({n, c}) - most);
              for (std::int64_t c = 0; c < extents[1]; ++c) {
                const double distance = most - x.at({n, c});
                const double expected = std::exp(-distance) / sum;
                // The difference is rounded, exp is good to some units, the sum adds C roundings.
                const double relative = computed_rounding(dtype) *
                                        (2 * distance + 16 + static_cast<double>(extents[1]));
                right = right && std::abs(y.at({n, c}) - expected) <=
                                     relative * expected + stored_error(dtype, expected);
              }
            }
            CHECK(right);
          }
  }
}
