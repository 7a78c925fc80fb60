// Pooling, on every device that is there: cases worked by hand, and random ones against loops in
// double.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

#include "nn_case.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::nn;

namespace {

std::vector<PoolGeometry> image_geometries() {
  return {
      {.window = {2, 2}, .stride = {2, 2}},
      {.window = {4, 4}, .stride = {4, 4}},
      {.window = {3, 3}, .stride = {1, 1}, .padding = {1, 1, 1, 1}},
      {.window = {3, 2}, .stride = {2, 3}, .padding = {2, 0, 1, 1}},
      {.window = {2, 3}, .stride = {1, 2}, .dilation = {3, 2}, .padding = {3, 2, 0, 4}},
      {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1, 1, 1}, .ceil_mode = true},
      {.window = {2, 2}, .stride = {3, 5}, .ceil_mode = true},
      {.window = {1, 1}, .stride = {1, 1}},
  };
}

std::vector<PoolGeometry> volume_geometries() {
  return {
      {.window = 2, .stride = 2},
      {.window = {3, 1, 2}, .stride = {1, 2, 3}, .padding = {2, 0, 1, 1, 0, 0}},
      {.window = {2, 3, 3}, .stride = {2, 1, 2}, .dilation = {3, 2, 1}, .padding = {3, 4, 0}},
      {.window = 3, .stride = 2, .padding = 1, .ceil_mode = true},
      {.window = {2, 1, 1}, .stride = {3, 4, 4}, .ceil_mode = true},
  };
}

/// Each of them takes the maximum, the average, and the average over the padding too.
std::vector<PoolGeometry> with_averages(std::vector<PoolGeometry> geometries) {
  const std::size_t count = geometries.size();
  for (std::size_t i = 0; i < count; ++i) {
    PoolGeometry average = geometries[i];
    average.kind = PoolKind::average;
    geometries.push_back(average);
    average.count_padding = true;
    geometries.push_back(average);
  }
  return geometries;
}

}  // namespace

TEST_CASE("nn: pooling by hand") {
  for (const Device& device : all_devices()) {
    CAPTURE(to_string(device.id()));
    const PoolGeometry max{.window = {2, 2}, .stride = {2, 2}};
    const PoolGeometry average{.kind = PoolKind::average, .window = {2, 2}, .stride = {2, 2}};
    const Values x{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    CHECK(pooled(device, {1, 1, 4, 4}, x, max) == Values{6, 8, 14, 16});
    // (1 + 2 + 5 + 6) / 4 = 3.5
    CHECK(pooled(device, {1, 1, 4, 4}, x, average) == Values{3.5, 5.5, 11.5, 13.5});
    CHECK(pooled(device, {2, 2, 2, 2}, x, max) == Values{4, 8, 12, 16});
  }
}

TEST_CASE("nn: padding never wins a maximum, and counts in an average only if asked") {
  for (const Device& device : all_devices()) {
    CAPTURE(to_string(device.id()));
    PoolGeometry g{.window = {1, 2}, .stride = {1, 2}, .padding = {0, 1, 0, 0}};
    CHECK(pooled(device, {1, 1, 1, 3}, {-5, -6, -7}, g) == Values{-5, -6});
    g.kind = PoolKind::average;
    CHECK(pooled(device, {1, 1, 1, 3}, {1, 2, 3}, g) == Values{1, 2.5});
    g.count_padding = true;
    CHECK(pooled(device, {1, 1, 1, 3}, {1, 2, 3}, g) == Values{0.5, 2.5});
  }
}

TEST_CASE("nn: with ceil_mode the last window hangs over, and what hangs over never counts") {
  for (const Device& device : all_devices()) {
    CAPTURE(to_string(device.id()));
    PoolGeometry g{.window = {1, 3}, .stride = {1, 3}, .padding = {0, 0, 0, 1}};
    const Values x{3, 1, 2, 8};
    CHECK(pooled(device, {1, 1, 1, 4}, x, g) == Values{3});
    g.ceil_mode = true;
    CHECK(pooled(device, {1, 1, 1, 4}, x, g) == Values{3, 8});
    g.kind = PoolKind::average;
    CHECK(pooled(device, {1, 1, 1, 4}, x, g) == Values{2, 8});
    g.count_padding = true;  // 8, one place of padding, one that hangs over
    CHECK(pooled(device, {1, 1, 1, 4}, x, g) == Values{2, 4});
  }
}

TEST_CASE("nn: NaN and infinities go through pooling") {
  for (const Device& device : all_devices()) {
    CAPTURE(to_string(device.id()));
    PoolGeometry g{.window = {1, 2}, .stride = {1, 2}};
    const Values x{nan_value, 1, 2, nan_value, -infinity, -infinity, infinity, 3};
    CHECK(same(pooled(device, {1, 1, 1, 8}, x, g), {nan_value, nan_value, -infinity, infinity}));
    g.kind = PoolKind::average;
    CHECK(same(pooled(device, {1, 1, 1, 8}, x, g), {nan_value, nan_value, -infinity, infinity}));
  }
}

TEST_CASE("nn: pooling of lines and volumes by hand") {
  for (const Device& device : all_devices()) {
    CAPTURE(to_string(device.id()));
    const Values x{1, 2, 3, 4, 5, 6, 7, 8};
    PoolGeometry g{.window = 2, .stride = 2};
    CHECK(pooled(device, {1, 1, 2, 2, 2}, x, g) == Values{8});
    CHECK(pooled(device, {2, 2, 2}, x, g) == Values{2, 4, 6, 8});
    g.kind = PoolKind::average;
    CHECK(pooled(device, {1, 1, 2, 2, 2}, x, g) == Values{4.5});
    CHECK(pooled(device, {1, 2, 4}, x, g) == Values{1.5, 3.5, 5.5, 7.5});
    // A window without a depth: (1 + 2 + 3 + 4) / 4 = 2.5
    CHECK(pooled(device, {1, 1, 2, 2, 2}, x, {.kind = PoolKind::average, .window = {2, 2}}) ==
          Values{2.5, 6.5});
    // Four of the eight places are padding in front: (1 + 2 + 3 + 4) / 4 = 2.5, or / 8 = 1.25
    PoolGeometry front{.kind = PoolKind::average, .window = 2, .padding = {1, 0, 0, 0, 0, 0}};
    CHECK(pooled(device, {1, 1, 2, 2, 2}, x, front) == Values{2.5, 4.5});
    front.count_padding = true;
    CHECK(pooled(device, {1, 1, 2, 2, 2}, x, front) == Values{1.25, 4.5});
  }
}

TEST_CASE("nn: what an image has no axis for is not looked at") {
  const PoolGeometry line{.window = {0, -1, 2}, .stride = {0, 0, 3}, .padding = {9, 9, 0, 9, 9, 1}};
  CHECK(pooled_extents({4, 5, 8}, line) == Extents{4, 5, 3});
  const PoolGeometry image{.window = {0, 2, 2}, .stride = {-1, 2, 1}};
  CHECK(pooled_extents({4, 5, 8, 3}, image) == Extents{4, 5, 4, 2});
}

namespace {

/// Pools random images of every dtype and layout, and holds them against loops in double.
void check_pooling(const Device& device, const Extents& extents, const PoolGeometry& g,
                   Random& random) {
  const Extents out = pooled_extents(extents, g);
  const auto x_layouts = layouts(extents), y_layouts = layouts(out);
  for (const DType dtype : dtypes)
    for (std::size_t layout = 0; layout < x_layouts.size(); ++layout) {
      CAPTURE(to_string(device.id()), to_string(dtype), to_string(out), layout);
      HostTensor x(dtype, extents, x_layouts[layout]);
      HostTensor y(dtype, out, y_layouts[(layout + 1) % y_layouts.size()]);
      x.fill([&] { return random.normal(); });
      on_device(device, x, y, [&](auto& queue, auto from, auto to) { pool(queue, from, to, g); });
      bool right = true;
      for_each_index(out, [&](const Dims& index) {
        const Pooled expected = pool_at(x, g, index);
        const double actual = y.at(index);
        const double bound =
            g.kind == PoolKind::max
                ? 0
                : (expected.count + 2) * computed_rounding(dtype) * expected.magnitude +
                      stored_error(dtype, actual);
        right = right && std::abs(actual - expected.value) <= bound;
      });
      CHECK(right);
    }
}

}  // namespace

TEST_CASE("nn: pooling of every dtype and layout against loops in double") {
  for (const Device& device : all_devices()) {
    Random random(11);
    for (const PoolGeometry& g : with_averages(image_geometries()))
      for (const Extents& extents : {Extents{2, 3, 9, 11}, Extents{1, 1, 67, 5}})
        check_pooling(device, extents, g, random);
  }
}

TEST_CASE("nn: pooling of lines and volumes against loops in double") {
  for (const Device& device : all_devices()) {
    Random random(12);
    for (const PoolGeometry& g : with_averages(volume_geometries()))
      for (const Extents& extents : {Extents{2, 3, 7, 9, 11}, Extents{1, 2, 6, 5, 270}})
        check_pooling(device, extents, g, random);
    for (const PoolGeometry& g : with_averages(volume_geometries()))
      check_pooling(device, {3, 2, 300}, g, random);
  }
}
