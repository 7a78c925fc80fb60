// Gradients of the operators around convolution, on every device that is there. In double they are
// held against central differences of the operators themselves. All but the loss are linear in x
// where no maximum changes hands, so that a difference over a step of 2^-10 has no error but that
// of rounding: some 2^-53 of the sum of y dy, over the step: 2^-43 times that. The loss has a third
// derivative below 1, and so an error below 2^-20 / 6 besides.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>
#include <vector>

#include "nn_case.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::nn;

namespace {

constexpr double difference_step = 0x1p-10;

/// The gradient of `sum(x)` by each element of x, from differences.
Values differences(const Values& x, const std::function<double(const Values&)>& sum) {
  Values result;
  for (std::size_t i = 0; i < x.size(); ++i) {
    Values moved = x;
    moved[i] = x[i] + difference_step;
    const double above = sum(moved);
    moved[i] = x[i] - difference_step;
    result.push_back((above - sum(moved)) / (2 * difference_step));
  }
  return result;
}

bool near(const Values& a, const Values& b, double tolerance) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance)) return false;
  return true;
}

/// Values of which no two are as near as two steps, so that no maximum changes hands.
Values apart(std::int64_t count, Random& random) {
  Values x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i) * 0.01;
  for (std::size_t i = x.size(); i > 1; --i)
    std::swap(x[i - 1], x[static_cast<std::size_t>(random.integer(0, static_cast<int>(i) - 1))]);
  return x;
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Values normal(std::int64_t count, Random& random) {
  Values x(static_cast<std::size_t>(count));
  for (double& value : x) value = random.normal();
  return x;
}

/// Runs `operate(queue, views...)` on a device; what it writes comes back into the tensors.
template <class F, class... Tensors>
void run_on(const Device& device, const F& operate, Tensors&... tensors) {
  Queue queue(device);
  std::vector<DeviceTensor> on_device;
  on_device.reserve(sizeof...(tensors));
  (on_device.emplace_back(queue, tensors), ...);
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    operate(queue, TensorView(on_device[i])...);
    (on_device[i].read_back(queue, tensors), ...);
  }
  (std::index_sequence_for<Tensors...>());
  const bool untouched = (tensors.surroundings_untouched() && ...);
  CHECK(untouched);
}

Values pool_gradient(const Device& device, DType dtype, const Extents& extents, const Values& x,
                     const Values& dy, const PoolGeometry& g) {
  HostTensor xs = HostTensor::of(dtype, extents, x), dx(dtype, extents);
  HostTensor dys = HostTensor::of(dtype, pooled_extents(extents, g), dy);
  run_on(
      device,
      [&](Queue& queue, auto of_x, auto of_dy, auto of_dx) {
        pool_backward(queue, of_x, of_dy, of_dx, g);
      },
      xs, dys, dx);
  return dx.values();
}

struct PoolCase {
  Extents extents;
  PoolGeometry geometry;
};
std::vector<PoolCase> pool_cases() {
  std::vector<PoolCase> cases{
      {{2, 2, 9}, {.window = 3, .stride = 2, .padding = 1}},
      {{2, 3, 6, 8}, {.window = 2, .stride = 2}},
      {{1, 2, 7, 6}, {.window = {3, 2}, .stride = {2, 1}, .padding = {1, 0, 2, 1}}},
      {{1, 2, 9, 8}, {.window = {2, 3}, .stride = {1, 2}, .dilation = {3, 2}, .padding = 2}},
      {{1, 1, 7, 8}, {.window = 3, .stride = 2, .padding = 1, .ceil_mode = true}},
      {{1, 1, 5, 7}, {.window = 2, .stride = {3, 4}, .ceil_mode = true}},
      {{1, 2, 4, 5, 6}, {.window = {2, 3, 2}, .stride = {1, 2, 2}, .padding = {1, 1, 0, 0, 2, 1}}},
      {{1, 1, 5, 4, 4}, {.window = 2, .stride = 2, .dilation = 2, .padding = 1}},
      {{1, 1, 40, 300}, {.window = 3, .stride = 1, .padding = 1}},
  };
  const std::size_t count = cases.size();
  for (std::size_t i = 0; i < count; ++i) {
    PoolCase average = cases[i];
    average.geometry.kind = PoolKind::average;
    cases.push_back(average);
    average.geometry.count_padding = true;
    cases.push_back(average);
  }
  return cases;
}

/// The gradient of pooling in double, by scattering.
Values scattered(const Extents& extents, const HostTensor& x, const HostTensor& dy,
                 const PoolGeometry& g) {
  HostTensor dx(DType::f64, extents);
  dx.fill([] { return 0; });
  const struct {
    std::int64_t window, stride, dilation, before;
  } axes[] = {{g.window.d, g.stride.d, g.dilation.d, g.padding.front},
              {g.window.h, g.stride.h, g.dilation.h, g.padding.top},
              {g.window.w, g.stride.w, g.dilation.w, g.padding.left}};
  const int rank = extents.rank();
  for_each_index(dy.extents(), [&](const Dims& index) {
    Extents window = index;
    for (int i = 0; i < rank; ++i) window[i] = i < 2 ? 1 : axes[i + 3 - rank].window;
    std::vector<Dims> inside;
    for_each_index(window, [&](const Dims& tap) {
      Dims at = index;
      for (int i = 2; i < rank; ++i) {
        const auto& axis = axes[i + 3 - rank];
        at[i] = index[i] * axis.stride + tap[i] * axis.dilation - axis.before;
        if (at[i] < 0 || at[i] >= extents[i]) return;
      }
      inside.push_back(at);
    });
    if (inside.empty()) return;
    Dims best = inside[0];
    for (const Dims& at : inside)
      if (x.at(at) > x.at(best) || std::isnan(x.at(at))) best = at;
    dx.set(best, dx.at(best) + dy.at(index));
  });
  return dx.values();
}

}  // namespace

TEST_CASE("nn gradients: pooling against differences of pooling") {
  for (const Device& device : all_devices()) {
    Random random(31);
    for (const auto& [of_x, geometry] : pool_cases()) {
      const Extents& extents = of_x;                // which lambdas may capture
      if (element_count(extents) > 2000) continue;  // too many differences
      const Extents out = pooled_extents(extents, geometry);
      CAPTURE(to_string(device.id()), to_string(extents), to_string(out));
      const Values x = apart(element_count(extents), random);
      Values dy = normal(element_count(out), random);
      // A window that sees nothing has no finite output.
      const auto pooled_sum = [&, &g = geometry](const Values& at) {
        HostTensor xs = HostTensor::of(DType::f64, extents, at), ys(DType::f64, out);
        on_device(device, xs, ys,
                  [&](auto& queue, auto from, auto to) { pool(queue, from, to, g); });
        double sum = 0;
        const Values y = ys.values();
        for (std::size_t i = 0; i < y.size(); ++i)
          if (std::isfinite(y[i])) sum += y[i] * dy[i];
        return sum;
      };
      const Values dx = pool_gradient(device, DType::f64, extents, x, dy, geometry);
      CHECK(near(dx, differences(x, pooled_sum), 0x1p-43 * 1e4));
    }
  }
}

TEST_CASE("nn gradients: max pooling of integers is exact in every dtype and layout") {
  for (const Device& device : all_devices()) {
    Random random(32);
    for (const auto& [extents, g] : pool_cases()) {
      if (g.kind != PoolKind::max) continue;
      const Extents out = pooled_extents(extents, g);
      const auto dx_layouts = layouts(extents), dy_layouts = layouts(out);
      for (const DType dtype : dtypes)
        for (std::size_t layout = 0; layout < dx_layouts.size(); ++layout) {
          CAPTURE(to_string(device.id()), to_string(dtype), to_string(extents), layout);
          HostTensor x(dtype, extents, dx_layouts[(layout + 1) % 4]);
          HostTensor dy(dtype, out, dy_layouts[(layout + 2) % 4]),
              dx(dtype, extents, dx_layouts[layout]);
          x.fill([&] { return random.integer(-2, 2); });  // many equal ones
          dy.fill([&] { return random.integer(-3, 3); });
          if (layout == 1)
            x.set(
                Dims(extents) =
                    [&extents = extents] {
                      Dims middle = extents;
                      for (int i = 0; i < middle.rank(); ++i) middle[i] /= 2;
                      return middle;
                    }(),
                nan_value);
          const Values expected = scattered(extents, x, dy, g);
          run_on(
              device,
              [&, &geometry = g](Queue& queue, auto of_x, auto of_dy, auto of_dx) {
                pool_backward(queue, of_x, of_dy, of_dx, geometry);
              },
              x, dy, dx);
          CHECK(dx.values() == expected);
        }
    }
  }
}

TEST_CASE("nn gradients: a maximum passes on to the first that is it, or to the last NaN") {
  const PoolGeometry g{.window = {1, 4}, .stride = {1, 4}};
  for (const Device& device : all_devices()) {
    CAPTURE(to_string(device.id()));
    const auto gradient = [&](const Values& x) {
      return pool_gradient(device, DType::f32, {1, 1, 1, 4}, x, {5}, g);
    };
    CHECK(gradient({1, 2, 2, 1}) == Values{0, 5, 0, 0});
    CHECK(gradient({-infinity, -infinity, -infinity, -infinity}) == Values{5, 0, 0, 0});
    CHECK(gradient({nan_value, 9, nan_value, 1}) == Values{0, 0, 5, 0});
    CHECK(gradient({infinity, infinity, nan_value, 1}) == Values{0, 0, 5, 0});
    CHECK(gradient({0, -0.0, 0, -1}) == Values{5, 0, 0, 0});
  }
}

TEST_CASE("nn gradients: averages by hand; x is not looked at") {
  PoolGeometry g{
      .kind = PoolKind::average, .window = {1, 2}, .stride = {1, 1}, .padding = {0, 1, 0, 0}};
  for (const Device& device : all_devices()) {
    CAPTURE(to_string(device.id()));
    const auto gradient = [&] {
      HostTensor dy = HostTensor::of(DType::f32, {1, 1, 1, 3}, {2, 4, 8}),
                 dx(DType::f32, {1, 1, 1, 3});
      run_on(
          device, [&](Queue& queue, auto from, auto to) { pool_backward(queue, {}, from, to, g); },
          dy, dx);
      return dx.values();
    };
    CHECK(gradient() == Values{4, 6, 4});  // the first window holds one pixel
    g.count_padding = true;
    CHECK(gradient() == Values{3, 6, 4});
    g.count_padding = false;
  }
}

TEST_CASE("nn gradients: relu passes on where its output is above 0, which NaN is not") {
  for (const Device& device : all_devices()) {
    Random random(33);
    CAPTURE(to_string(device.id()));
    HostTensor y = HostTensor::of(DType::f32, {6}, {0, 1, nan_value, -0.0, infinity, -1});
    HostTensor dy = HostTensor::of(DType::f32, {6}, {1, 2, 3, nan_value, 5, 6}),
               dx(DType::f32, {6});
    run_on(
        device,
        [](Queue& queue, auto of_y, auto from, auto to) { relu_backward(queue, of_y, from, to); },
        y, dy, dx);
    CHECK(dx.values() == Values{0, 2, 0, 0, 5, 0});
    for (const DType dtype : dtypes)
      for (const Extents& extents :
           {Extents{3, 4, 5, 7}, Extents{2, 3, 2, 3, 2, 3}, Extents{40'000}, Extents{4, 0, 3}}) {
        Dims order = extents;
        for (int i = 0; i < order.rank(); ++i) order[i] = (i + 1) % order.rank();
        HostTensor ys(dtype, extents), dys(dtype, extents, strides_in_order(extents, order, 2));
        HostTensor dxs(dtype, extents, strides_in_order(extents, order, 1));
        ys.fill([&] {
          const double value = random.integer(-2, 3);
          return value == 3 ? nan_value : value;
        });
        dys.fill([&] { return random.integer(-2, 2); });
        const Values outputs = ys.values();
        Values expected = dys.values();
        for (std::size_t i = 0; i < expected.size(); ++i)
          if (!(outputs[i] > 0)) expected[i] = 0;
        run_on(
            device,
            [](Queue& queue, auto of_y, auto from, auto to) {
              relu_backward(queue, of_y, from, to);
              relu_backward(queue, of_y, from, from);  // in place
            },
            ys, dys, dxs);
        CHECK(dxs.values() == expected);
        CHECK(dys.values() == expected);
      }
  }
}

TEST_CASE("nn gradients: linear against sums of integers, and what is not asked for") {
  for (const Device& device : all_devices()) {
    Random random(34);
    for (const DType dtype : dtypes) {
      CAPTURE(to_string(device.id()), to_string(dtype));
      const std::int64_t n = 7, c = 10, k = 6;
      HostTensor x(dtype, {n, c}, {1, n}), w(dtype, {k, c}), dy(dtype, {n, k}, {k + 2, 1});
      HostTensor dx(dtype, {n, c}), dw(dtype, {k, c}, {1, k}), db(dtype, {k}), alone(dtype, {n, c});
      for (HostTensor* tensor : {&x, &w, &dy}) tensor->fill([&] { return random.integer(-2, 2); });
      run_on(
          device,
          [](Queue& queue, auto xs, auto ws, auto dys, auto dxs, auto dws, auto dbs,
             auto dx_alone) {
            linear_backward(queue, {.x = xs, .w = ws, .dy = dys, .dx = dxs, .dw = dws, .db = dbs});
            linear_backward(queue, {.w = ws, .dy = dys, .dx = dx_alone});
          },
          x, w, dy, dx, dw, db, alone);
      bool right = true;
      for_each_index(dx.extents(), [&](const Dims& at) {
        double sum = 0;
        for (std::int64_t i = 0; i < k; ++i) sum += dy.at({at[0], i}) * w.at({i, at[1]});
        right = right && dx.at(at) == sum && alone.at(at) == sum;
      });
      for_each_index(dw.extents(), [&](const Dims& at) {
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i) sum += dy.at({i, at[0]}) * x.at({i, at[1]});
        right = right && dw.at(at) == sum;
      });
      for (std::int64_t i = 0; i < k; ++i) {
        double sum = 0;
        for (std::int64_t j = 0; j < n; ++j) sum += dy.at({j, i});
        right = right && db.at({i}) == sum;
      }
      CHECK(right);
    }
  }
}

TEST_CASE("nn gradients: bilinear resizing against differences, and what goes in comes out") {
  for (const Device& device : all_devices()) {
    Random random(35);
    for (const auto& [extents, resized] : {std::pair{Extents{1, 2, 5, 6}, Extents{1, 2, 9, 4}},
                                           {Extents{2, 1, 4, 4}, Extents{2, 1, 8, 8}},
                                           {Extents{1, 1, 1, 7}, Extents{1, 1, 3, 3}},
                                           {Extents{1, 1, 6, 5}, Extents{1, 1, 1, 1}},
                                           {Extents{1, 1, 3, 300}, Extents{1, 1, 2, 500}}}) {
      const Extents &from = extents, &to = resized;  // which lambdas may capture
      CAPTURE(to_string(device.id()), to_string(from), to_string(to));
      const auto gradient = [&](DType dtype, const Values& values, const Strides& strides) {
        HostTensor dy = HostTensor::of(dtype, to, values), dx(dtype, from, strides);
        run_on(
            device,
            [](Queue& queue, auto of_dy, auto of_dx) {
              resize_bilinear_backward(queue, of_dy, of_dx);
            },
            dy, dx);
        return dx.values();
      };
      const Values dy = normal(element_count(to), random);
      const Values dx = gradient(DType::f64, dy, {});
      if (element_count(from) < 200) {
        const auto sum = [&, &x_extents = from, &y_extents = to](const Values& at) {
          HostTensor xs = HostTensor::of(DType::f64, x_extents, at), ys(DType::f64, y_extents);
          on_device(device, xs, ys,
                    [](auto& queue, auto a, auto b) { resize_bilinear(queue, a, b); });
          return dot(ys.values(), dy);
        };
        const Values x = normal(element_count(from), random);
        CHECK(near(dx, differences(x, sum), 0x1p-43 * 1e4));
      }
      for (const Strides& strides : layouts(from)) CHECK(gradient(DType::f64, dy, strides) == dx);
      // Each sample's weights are 1 together: of ones the sum is what there was.
      double total = 0;
      for (const double value :
           gradient(DType::f32, Values(static_cast<std::size_t>(element_count(to)), 1), {}))
        total += value;
      CHECK(std::abs(total - static_cast<double>(element_count(to))) <
            1e-5 * static_cast<double>(element_count(to)));
    }
    HostTensor none(DType::f32, {1, 1, 0, 4}), dx(DType::f32, {1, 1, 2, 2});
    run_on(
        device,
        [](Queue& queue, auto of_dy, auto of_dx) { resize_bilinear_backward(queue, of_dy, of_dx); },
        none, dx);
    CHECK(dx.values() == Values{0, 0, 0, 0});
  }
}
