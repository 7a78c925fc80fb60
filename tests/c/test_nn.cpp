// The operators around convolution, called from C.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

#include "c_case.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::c;

TEST_CASE("c: the operators around convolution") {
  for (const Device& same : all_devices()) {
    const CDevice device(to_string(same.id()).c_str());
    const CQueue queue(device);
    const std::vector<float> none(4, NAN);
    const OnDevice x(device, queue, {-1, 2, 3, -4});
    const auto result = [&](const std::vector<std::int64_t>& extents, auto&& call) {
      std::size_t count = 1;
      for (const std::int64_t e : extents) count *= static_cast<std::size_t>(e);
      const OnDevice y(device, queue, std::vector<float>(count, NAN));
      const plumb_tensor ty = tensor(y, device, extents);
      const plumb_status status = call(&ty);
      INFO(plumb_last_message());
      REQUIRE(status == PLUMB_OK);
      return y.download();
    };
    const plumb_tensor image = tensor(x, device, {1, 1, 2, 2}), row = tensor(x, device, {1, 4});
    REQUIRE(result({1, 4}, [&](auto* y) { return plumb_relu(queue, &row, y); }) ==
            std::vector<float>{0, 2, 3, 0});

    plumb_pool_geometry window;
    REQUIRE(plumb_pool_geometry_init(&window) == PLUMB_OK);
    window.window_h = window.window_w = 2;
    std::int64_t pooled[4];
    REQUIRE(plumb_pooled_extents(image.extents, &window, pooled) == PLUMB_OK);
    REQUIRE(Extents(pooled, 4) == Extents{1, 1, 1, 1});
    const auto pool = [&](auto* y) { return plumb_pool(queue, &image, y, &window); };
    REQUIRE(result({1, 1, 1, 1}, pool) == std::vector<float>{3});
    window.kind = PLUMB_POOL_AVERAGE;
    REQUIRE(result({1, 1, 1, 1}, pool) == std::vector<float>{0});
    window.kind = 2;
    REQUIRE(plumb_pool(queue, &image, &image, &window) == PLUMB_INVALID_ARGUMENT);

    const OnDevice weights(device, queue, {1, 0, 0, 0, 1, 1, 1, 1}), shift(device, queue, {10, 20});
    const plumb_tensor w = tensor(weights, device, {2, 4}), bias = tensor(shift, device, {2});
    REQUIRE(result({1, 2}, [&](auto* y) {
              return plumb_linear(queue, &row, &w, &bias, y, nullptr);
            }) == std::vector<float>{9, 20});

    const auto shares = result({1, 4}, [&](auto* y) { return plumb_softmax(queue, &row, y); });
    REQUIRE(std::abs(shares[0] + shares[1] + shares[2] + shares[3] - 1) < 1e-6f);
    REQUIRE(result({1, 1, 1, 1}, [&](auto* y) {
              return plumb_resize_bilinear(queue, &image, y);
            }) == std::vector<float>{0});
  }
}

TEST_CASE("c: every number of a pooling arrives") {
  const plumb_pool_geometry in_c{.kind = PLUMB_POOL_AVERAGE,
                                 .ceil_mode = 1,
                                 .count_padding = 1,
                                 .window_h = 2,
                                 .window_w = 3,
                                 .stride_h = 3,
                                 .stride_w = 2,
                                 .dilation_h = 3,
                                 .dilation_w = 1,
                                 .padding_top = 3,
                                 .padding_left = 1,
                                 .padding_bottom = 2,
                                 .padding_right = 0};
  const PoolGeometry in_cpp{.kind = PoolKind::average,
                            .window = {2, 3},
                            .stride = {3, 2},
                            .dilation = {3, 1},
                            .padding = {3, 1, 2, 0},
                            .ceil_mode = true,
                            .count_padding = true};
  const std::vector<float> x = values(1 * 2 * 7 * 9, 0.53f);
  const Extents y_extents = pooled_extents({1, 2, 7, 9}, in_cpp);
  const std::int64_t x_extents[] = {1, 2, 7, 9};
  std::int64_t pooled[4];
  REQUIRE(plumb_pooled_extents(x_extents, &in_c, pooled) == PLUMB_OK);
  REQUIRE(Extents(pooled, 4) == y_extents);

  std::vector<float> expected(static_cast<std::size_t>(element_count(y_extents)));
  std::vector<float> y(expected.size());
  Queue queue(Device::open("cpu"));
  pool(queue, {x.data(), {1, 2, 7, 9}}, {expected.data(), y_extents}, in_cpp);
  const CDevice device;
  const CQueue c_queue(device);
  const plumb_tensor tx = tensor(x.data(), nullptr, {1, 2, 7, 9});
  const plumb_tensor ty = tensor(y.data(), nullptr, {pooled[0], pooled[1], pooled[2], pooled[3]});
  REQUIRE(plumb_pool(c_queue, &tx, &ty, &in_c) == PLUMB_OK);
  REQUIRE(y == expected);
}
