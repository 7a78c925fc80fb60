// The operators around convolution, on every device that is there: cases worked by hand, and
// random ones against loops in double.
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <vector>

#include "support/devices.hpp"
#include "support/host_tensor.hpp"

using namespace plumb;
using namespace plumb_test;
using Values = std::vector<double>;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

/// Half the distance of 1 and its successor, in the stored type and in the one computed in.
double rounding(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
  }
  return 0;
}
double computed_rounding(DType dtype) { return dtype == DType::f64 ? 0x1p-53 : 0x1p-24; }

/// What storing `y` may add to an error, subnormal f16 included.
double stored_error(DType dtype, double y) {
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
bool same(const Values& a, const Values& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double u, double v) { return u == v || (std::isnan(u) && std::isnan(v)); });
}

/// Ways for a tensor to lie in memory: dense, NHWC, with gaps, backwards.
std::vector<Strides> layouts(const Extents& extents) {
  Strides backwards = dense_strides(extents);
  for (int i = 0; i < extents.rank(); ++i) backwards[i] *= -1;
  return {dense_strides(extents), strides_in_order(extents, {0, 2, 3, 1}),
          strides_in_order(extents, {0, 1, 2, 3}, 3), backwards};
}

Values pooled(const Device& device, const Extents& extents, const Values& x,
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
Pooled pool_at(const HostTensor& x, const PoolGeometry& g, const Dims& index) {
  double most = -infinity, sum = 0, magnitude = 0;
  int inside = 0, padded = 0;
  const std::int64_t height = x.extents()[2], width = x.extents()[3];
  for (std::int64_t r = 0; r < g.window.h; ++r)
    for (std::int64_t s = 0; s < g.window.w; ++s) {
      const std::int64_t h = index[2] * g.stride.h + r * g.dilation.h - g.padding.top;
      const std::int64_t w = index[3] * g.stride.w + s * g.dilation.w - g.padding.left;
      if (h < height + g.padding.bottom && w < width + g.padding.right) ++padded;
      if (h < 0 || h >= height || w < 0 || w >= width) continue;
      ++inside;
      const double value = x.at({index[0], index[1], h, w});
      most = std::isnan(most) || value <= most ? most : value;
      sum += value;
      magnitude += std::abs(value);
    }
  const int divisor = g.count_padding ? padded : inside;
  if (g.kind == PoolKind::max) return {most, 0, inside};
  return {sum / divisor, magnitude / divisor, inside};
}

std::vector<PoolGeometry> pool_geometries() {
  using enum PoolKind;
  std::vector<PoolGeometry> geometries = {
      {.window = {2, 2}, .stride = {2, 2}},
      {.window = {4, 4}, .stride = {4, 4}},
      {.window = {3, 3}, .stride = {1, 1}, .padding = {1, 1, 1, 1}},
      {.window = {3, 2}, .stride = {2, 3}, .padding = {2, 0, 1, 1}},
      {.window = {2, 3}, .stride = {1, 2}, .dilation = {3, 2}, .padding = {3, 2, 0, 4}},
      {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1, 1, 1}, .ceil_mode = true},
      {.window = {2, 2}, .stride = {3, 5}, .ceil_mode = true},
      {.window = {1, 1}, .stride = {1, 1}},
  };
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

/// Bilinear interpolation at one output, in double.
double resized_at(const HostTensor& x, const HostTensor& y, const Dims& index) {
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

TEST_CASE("nn: pooling of every dtype and layout against loops in double") {
  for (const Device& device : all_devices()) {
    Random random(11);
    for (const DType dtype : dtypes)
      for (const PoolGeometry& g : pool_geometries())
        for (const Extents& extents : {Extents{2, 3, 9, 11}, Extents{1, 1, 67, 5}}) {
          const Extents out = pooled_extents(extents, g);
          const auto x_layouts = layouts(extents), y_layouts = layouts(out);
          for (std::size_t layout = 0; layout < x_layouts.size(); ++layout) {
            CAPTURE(to_string(device.id()), to_string(dtype), to_string(out), layout);
            HostTensor x(dtype, extents, x_layouts[layout]);
            HostTensor y(dtype, out, y_layouts[(layout + 1) % y_layouts.size()]);
            x.fill([&] { return random.normal(); });
            on_device(device, x, y,
                      [&](auto& queue, auto from, auto to) { pool(queue, from, to, g); });
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
  }
}

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
