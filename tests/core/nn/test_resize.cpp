// Bilinear resizing, on every device that is there: cases worked by hand, and random ones against
// loops in double.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <utility>

#include "nn_case.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::nn;

TEST_CASE("nn: bilinear resizing by hand") {
  const auto operate = [](auto& queue, auto from, auto to) { resize_bilinear(queue, from, to); };
  for (const Device& device : all_devices()) {
    CAPTURE(to_string(device.id()));
    // centres at -1/4, 1/4, 3/4, 5/4
    CHECK(results(device, {1, 1, 1, 2}, {0, 10}, {1, 1, 1, 4}, operate) == Values{0, 2.5, 7.5, 10});
    // centres at 1/2 and 5/2
    CHECK(results(device, {1, 1, 4, 1}, {0, 1, 2, 3}, {1, 1, 2, 1}, operate) == Values{0.5, 2.5});
    CHECK(results(device, {1, 1, 1, 1}, {7}, {1, 1, 2, 2}, operate) == Values{7, 7, 7, 7});
    // rows at 1/2 of 0 10 and 20 30, columns at -1/4, 1/4, 3/4, 5/4
    CHECK(results(device, {1, 1, 2, 2}, {0, 10, 20, 30}, {1, 1, 1, 4}, operate) ==
          Values{10, 12.5, 17.5, 20});
    const Values two{1, 2, 3, 4, -1, -2, -3, -4};
    CHECK(results(device, {1, 2, 2, 2}, two, {1, 2, 2, 2}, operate) == two);
    // centres at -1/4, 1/4, ..., 13/4: those beside the NaN take part in it
    CHECK(same(results(device, {1, 1, 1, 4}, {1, 2, nan_value, 4}, {1, 1, 1, 8}, operate),
               {1, 1.25, 1.75, nan_value, nan_value, nan_value, nan_value, 4}));
  }
}

TEST_CASE("nn: bilinear resizing of every dtype and layout against loops in double") {
  for (const Device& device : all_devices()) {
    Random random(15);
    for (const DType dtype : dtypes)
      for (const auto& [from_size, to_size] :
           {std::pair{Pair{28, 28}, Pair{86, 86}}, std::pair{Pair{13, 9}, Pair{5, 17}},
            std::pair{Pair{5, 1}, Pair{5, 3}}}) {
        const Extents in{2, 2, from_size.h, from_size.w}, out{2, 2, to_size.h, to_size.w};
        const auto x_layouts = layouts(in), y_layouts = layouts(out);
        for (std::size_t layout = 0; layout < x_layouts.size(); ++layout) {
          CAPTURE(to_string(device.id()), to_string(dtype), to_string(out), layout);
          HostTensor x(dtype, in, x_layouts[layout]);
          HostTensor y(dtype, out, y_layouts[(layout + 1) % y_layouts.size()]);
          double largest = 0;
          x.fill([&] {
            const double value = random.normal();
            largest = std::max(largest, std::abs(value));
            return value;
          });
          on_device(device, x, y,
                    [](auto& queue, auto from, auto to) { resize_bilinear(queue, from, to); });
          // A place is off by some roundings of the image's size, a value by that times its slope.
          const double off = computed_rounding(dtype) * largest * (8 * 28 + 16);
          bool right = true;
          for_each_index(out, [&](const Dims& index) {
            const double expected = resized_at(x, y, index), actual = y.at(index);
            right = right && std::abs(actual - expected) <= off + stored_error(dtype, actual);
          });
          CHECK(right);
        }
      }
  }
}
