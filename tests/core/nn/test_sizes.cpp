// Images larger than a block of threads, and batches of no image, through several operators.
#include <catch2/catch_test_macros.hpp>

#include "nn_case.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::nn;

TEST_CASE("nn: wide and tall images are pooled and resized to the last pixel") {
  for (const Device& device : all_devices()) {
    CAPTURE(to_string(device.id()));
    Random random(12);
    HostTensor x(DType::f32, {1, 2, 150, 700});
    x.fill([&] { return random.integer(-100, 100); });
    const PoolGeometry g{.window = {3, 3}, .stride = {1, 1}, .padding = {1, 1, 1, 1}};
    HostTensor y(DType::f32, pooled_extents(x.extents(), g));
    on_device(device, x, y, [&](auto& queue, auto from, auto to) { pool(queue, from, to, g); });
    bool right = true;
    for_each_index(y.extents(), [&](const Dims& index) {
      right = right && y.at(index) == pool_at(x, g, index).value;
    });
    CHECK(right);
    // Twice as large: places are quarters, and the values sixteenths of integers, all exact.
    HostTensor larger(DType::f32, {1, 2, 300, 1400});
    on_device(device, x, larger,
              [](auto& queue, auto from, auto to) { resize_bilinear(queue, from, to); });
    right = true;
    for_each_index(larger.extents(), [&](const Dims& index) {
      right = right && larger.at(index) == resized_at(x, larger, index);
    });
    CHECK(right);
  }
}

TEST_CASE("nn: an empty batch is done at once") {
  for (const Device& device : all_devices()) {
    HostTensor x(DType::f32, {0, 2, 4, 4}), y(DType::f32, {0, 2, 2, 2});
    on_device(device, x, y, [](auto& queue, auto from, auto to) {
      pool(queue, from, to, {.window = {2, 2}, .stride = {2, 2}});
      resize_bilinear(queue, from, to);
      relu(queue, from, TensorView(to.data(), to.dtype(), from.extents(), to.device()));
    });
    HostTensor rows(DType::f32, {0, 5}), probabilities(DType::f32, {0, 5});
    on_device(device, rows, probabilities,
              [](auto& queue, auto from, auto to) { softmax(queue, from, to); });
  }
}
