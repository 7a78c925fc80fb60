// The linear layer, on every device that is there: cases worked by hand, and random ones against
// loops in double.
#include <catch2/catch_test_macros.hpp>

#include "nn_case.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::nn;

TEST_CASE("nn: linear by hand and against loops in double") {
  for (const Device& device : all_devices()) {
    CAPTURE(to_string(device.id()));
    Queue queue(device);
    const auto run = [&](HostTensor& x, HostTensor& w, HostTensor& bias, HostTensor& y,
                         Activation activation) {
      const DeviceTensor xs(queue, x), ws(queue, w), biases(queue, bias), ys(queue, y);
      linear(queue, {.x = xs, .w = ws, .bias = biases, .y = ys}, {.activation = activation});
      ys.read_back(queue, y);
      CHECK(y.surroundings_untouched());
    };
    {
      HostTensor x = HostTensor::of(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
      HostTensor w = HostTensor::of(DType::f32, {2, 3}, {1, 10, 100, 1, 0, -1});
      HostTensor bias = HostTensor::of(DType::f32, {2}, {0.5, -1});
      HostTensor y(DType::f32, {2, 2});
      run(x, w, bias, y, Activation::none);
      CHECK(y.values() == Values{321.5, -3, 654.5, -3});
      run(x, w, bias, y, Activation::relu);
      CHECK(y.values() == Values{321.5, 0, 654.5, 0});
    }
    Random random(16);
    for (const DType dtype : dtypes)
      for (const Dims& order : {Dims{0, 1}, Dims{1, 0}}) {
        CAPTURE(to_string(dtype), to_string(order));
        HostTensor x(dtype, {37, 50}, strides_in_order({37, 50}, order));
        HostTensor w(dtype, {32, 50}, strides_in_order({32, 50}, order, 1));
        HostTensor bias(dtype, {32}), y(dtype, {37, 32}, strides_in_order({37, 32}, order, 2));
        for (HostTensor* tensor : {&x, &w, &bias})
          tensor->fill([&] { return random.integer(-4, 4); });
        run(x, w, bias, y, Activation::none);
        bool right = true;
        for_each_index(y.extents(), [&](const Dims& index) {
          double sum = bias.at({index[1]});
          for (std::int64_t c = 0; c < 50; ++c) sum += x.at({index[0], c}) * w.at({index[1], c});
          HostTensor expected = HostTensor::of(dtype, {1}, {sum});  // rounded once
          right = right && y.at(index) == expected.at({0});
        });
        CHECK(right);
      }
  }
}
