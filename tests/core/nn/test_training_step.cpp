// Softmax with cross-entropy, and the step of gradient descent, on every device that is there; and
// that no result depends on the number of threads.
#include <omp.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <functional>
#include <vector>

#include "nn_case.hpp"
#include "support/devices.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::nn;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Loss and gradient of a batch, brought back.
struct Result {
  double loss;
  Values dlogits;
};
Result cross_entropy(const Device& device, const HostTensor& given,
                     const std::vector<std::int64_t>& labels, double scale = 1,
                     DType of_loss = DType::f64, bool in_place = false) {
  HostTensor logits = given, loss(of_loss, {1}), dlogits(given.dtype(), given.extents());
  Queue queue(device);
  // Labels are integers of eight bytes, which a copy takes for doubles.
  const auto count = static_cast<std::int64_t>(labels.size());
  const Tensor numbers(device, DType::f64, {count});
  copy(queue, ConstTensorView(labels.data(), DType::f64, {count}), numbers);
  const DeviceTensor x(queue, logits), l(queue, loss), dx(queue, dlogits);
  softmax_cross_entropy(
      queue,
      {.logits = x,
       .labels = {static_cast<const std::int64_t*>(numbers.data()), count, device.id()},
       .loss = l,
       .dlogits = in_place ? TensorView(x) : TensorView(dx)},
      scale);
  l.read_back(queue, loss);
  if (in_place)
    x.read_back(queue, logits);
  else
    dx.read_back(queue, dlogits);
  CHECK(loss.surroundings_untouched());
  return {loss.at({0}), in_place ? logits.values() : dlogits.values()};
}

/// The same with loops in double.
Result expected_of(const HostTensor& x, const std::vector<std::int64_t>& labels) {
  const std::int64_t rows = x.extents()[0], classes = x.extents()[1];
  Result result{0, {}};
  for (std::int64_t n = 0; n < rows; ++n) {
    double most = -infinity, sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) most = std::max(most, x.at({n, c}));
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(x.at({n, c}) - most);
    const std::int64_t label = labels[static_cast<std::size_t>(n)];
    result.loss += (std::log(sum) + most - x.at({n, label})) / static_cast<double>(rows);
    for (std::int64_t c = 0; c < classes; ++c)
      result.dlogits.push_back((std::exp(x.at({n, c}) - most) / sum - (c == label)) /
                               static_cast<double>(rows));
  }
  return result;
}

struct Stepped {
  Values w, velocity;
};
Stepped stepped(const Device& device, HostTensor w, HostTensor dw, HostTensor velocity,
                const SgdOptions& options, int steps = 1) {
  Queue queue(device);
  const DeviceTensor ws(queue, w), dws(queue, dw), vs(queue, velocity);
  for (int i = 0; i < steps; ++i)
    sgd_step(queue,
             {.w = ws, .dw = dws, .velocity = options.momentum > 0 ? TensorView(vs) : TensorView()},
             options);
  ws.read_back(queue, w);
  vs.read_back(queue, velocity);
  CHECK(w.surroundings_untouched());
  CHECK(velocity.surroundings_untouched());
  return {w.values(), velocity.values()};
}

}  // namespace

TEST_CASE("nn gradients: cross-entropy against loops in double, of every dtype and layout") {
  for (const Device& device : all_devices()) {
    Random random(41);
    for (const DType dtype : dtypes)
      for (const Extents& extents : {Extents{5, 10}, Extents{3, 1}, Extents{2, 1500}})
        for (const Dims& order : {Dims{0, 1}, Dims{1, 0}}) {
          CAPTURE(to_string(device.id()), to_string(dtype), to_string(extents));
          HostTensor x(dtype, extents, strides_in_order(extents, order, 1));
          x.fill([&] { return 3 * random.normal(); });
          std::vector<std::int64_t> labels;
          for (std::int64_t n = 0; n < extents[0]; ++n)
            labels.push_back(
                static_cast<std::int64_t>(random.integer(0, static_cast<int>(extents[1]) - 1)));
          const Result expected = expected_of(x, labels);
          // As of softmax: distances of up to 25, and a sum of C terms.
          const double off = computed_rounding(dtype) * (66 + static_cast<double>(extents[1]));
          for (const bool in_place : {false, true}) {
            const Result got = cross_entropy(device, x, labels, 1, DType::f64, in_place);
            CHECK(std::abs(got.loss - expected.loss) <= off * (1 + expected.loss));
            bool right = true;
            for (std::size_t i = 0; i < got.dlogits.size(); ++i)
              right = right && std::abs(got.dlogits[i] - expected.dlogits[i]) <=
                                   off + stored_error(dtype, expected.dlogits[i]);
            CHECK(right);
          }
        }
  }
}

TEST_CASE("nn gradients: cross-entropy against differences of its loss") {
  constexpr double step = 0x1p-13;
  for (const Device& device : all_devices()) {
    Random random(42);
    HostTensor x(DType::f64, {3, 5});
    x.fill([&] { return random.normal(); });
    const std::vector<std::int64_t> labels{4, 0, 2};
    const Values gradient = cross_entropy(device, x, labels).dlogits;
    std::size_t next = 0;
    for_each_index(x.extents(), [&](const Dims& at) {
      HostTensor above = x, below = x;
      above.set(at, x.at(at) + step), below.set(at, x.at(at) - step);
      const double difference =
          (cross_entropy(device, above, labels).loss - cross_entropy(device, below, labels).loss) /
          (2 * step);
      // The third derivative of a row's loss is below 1: step^2 / 6, and roundings over the step.
      CHECK(std::abs(gradient[next++] - difference) < step * step / 6 + 0x1p-50 / step);
    });
  }
}

TEST_CASE("nn gradients: cross-entropy of infinities, NaN, no class and no image") {
  for (const Device& device : all_devices()) {
    CAPTURE(to_string(device.id()));
    const auto of = [&](const Values& x, const std::vector<std::int64_t>& labels) {
      const auto rows = static_cast<std::int64_t>(labels.size());
      return cross_entropy(device, HostTensor::of(DType::f32, {rows, 2}, x), labels, 1, DType::f32);
    };
    const Result far = of({-infinity, 0}, {0});
    CHECK(far.loss == infinity);
    CHECK(far.dlogits == Values{-1, 1});
    CHECK(of({-1e30, 5}, {1}).loss == 0);
    const Result not_a_number = of({1, nan_value, 0, 0}, {0, 0});
    CHECK(std::isnan(not_a_number.loss));
    CHECK(same(not_a_number.dlogits, {nan_value, nan_value, -0.25, 0.25}));
    for (const std::int64_t label : {std::int64_t{-1}, std::int64_t{2}, std::int64_t{1} << 62}) {
      const Result none = of({0, 0, 0, 0}, {label, 1});
      CHECK(std::isnan(none.loss));
      CHECK(same(none.dlogits, {nan_value, nan_value, 0.25, -0.25}));
    }
    CHECK(std::isnan(of({}, {}).loss));
    const HostTensor even = HostTensor::of(DType::f32, {1, 2}, {3, 3});
    CHECK(cross_entropy(device, even, {0}, 1024).dlogits == Values{-512, 512});
  }
}

TEST_CASE("nn gradients: a step of gradient descent by hand, of every dtype and layout") {
  for (const Device& device : all_devices())
    for (const DType dtype : dtypes)
      for (const Strides& strides : {Strides{2, 1}, Strides{1, 5}, Strides{-2, -1}}) {
        CAPTURE(to_string(device.id()), to_string(dtype), to_string(strides));
        const HostTensor w = HostTensor::of(dtype, {2, 2}, {1, 2, 3, 4}, strides);
        const HostTensor dw = HostTensor::of(dtype, {2, 2}, {4, 8, -4, 0});
        const HostTensor zeros = HostTensor::of(dtype, {2, 2}, {0, 0, 0, 0}, {1, 3});
        const Stepped plain = stepped(device, w, dw, zeros, {.learning_rate = 0.25});
        CHECK(plain.w == Values{0, 0, 4, 4});
        CHECK(plain.velocity == Values{0, 0, 0, 0});
        const SgdOptions options{.learning_rate = 0.25, .momentum = 0.5};
        // Of the first weight: velocity 4, then 6; 1 - 1 - 1.5.
        const Stepped twice = stepped(device, w, dw, zeros, options, 2);
        CHECK(twice.w == Values{-1.5, -3, 5.5, 4});
        CHECK(twice.velocity == Values{6, 12, -6, 0});
        // g = 4 + 2 1 = 6, velocity 6, and g + 3 = 9.
        const SgdOptions ahead{
            .learning_rate = 0.25, .momentum = 0.5, .weight_decay = 2, .nesterov = true};
        const Stepped looked = stepped(device, w, dw, zeros, ahead);
        CHECK(looked.w == Values{-1.25, -2.5, 2.25, 1});
        CHECK(looked.velocity == Values{6, 12, 2, 8});
      }
}

TEST_CASE("nn gradients: the CPU gives the same bits on any number of threads") {
  const auto all = [](int threads) {
    omp_set_num_threads(threads);
    const Device device = Device::open("cpu");
    Random random(43);
    Values bits;
    const auto keep = [&](const Values& values) {
      bits.insert(bits.end(), values.begin(), values.end());
    };
    const PoolGeometry g{.kind = PoolKind::average, .window = 3, .stride = 2, .padding = 1};
    HostTensor x(DType::f32, {3, 4, 60, 70}), dy(DType::f32, pooled_extents(x.extents(), g));
    HostTensor dx(DType::f32, x.extents());
    for (HostTensor* tensor : {&x, &dy}) tensor->fill([&] { return random.normal(); });
    on_device(device, dy, dx,
              [&](Queue& queue, auto from, auto to) { pool_backward(queue, {}, from, to, g); });
    keep(dx.values());
    on_device(device, dy, dx,
              [](Queue& queue, auto from, auto to) { resize_bilinear_backward(queue, from, to); });
    keep(dx.values());
    HostTensor logits(DType::f32, {4000, 10});
    logits.fill([&] { return random.normal(); });
    const Result loss =
        cross_entropy(device, logits, std::vector<std::int64_t>(4000, 3), 1, DType::f32);
    keep(loss.dlogits);
    keep({loss.loss});
    const SgdOptions options{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 1e-4};
    const Stepped step = stepped(device, x, dx, dx, options);
    keep(step.w), keep(step.velocity);
    return bits;
  };
  const int before = omp_get_max_threads();
  const Values one = all(1);
  for (const int threads : {2, 3, 7}) CHECK(all(threads) == one);
  omp_set_num_threads(before);
}

TEST_CASE("refusals: gradients of the operators around convolution") {
  Queue queue(Device::open("cpu"));
  std::vector<float> from(64, 1), to(64, 7), more(64, 2);
  const std::vector<std::int64_t> classes(8, 0);
  const ConstTensorView image(from.data(), {1, 1, 8, 8}), rows(from.data(), {4, 8});
  const TensorView y(to.data(), {1, 1, 8, 8}), y_rows(to.data(), {4, 8});
  const TensorView v_rows(more.data(), {4, 8});
  const TensorView loss(more.data(), {1});
  const LabelView labels{classes.data(), 4};
  const PoolGeometry two{.window = {2, 2}, .stride = {2, 2}};
  const ConstTensorView halves(from.data(), DType::f16, {4, 8});
  const auto refused = [](const std::function<void()>& call, const char* words) {
    const Error error = refusal(call);
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK_THAT(error.what(), ContainsSubstring(words));
  };
  refused([&] { relu_backward(queue, halves, rows, y_rows); }, "y is f16, dy is f32");
  refused([&] { relu_backward(queue, rows, image, y_rows); },
          "dy is [1, 1, 8, 8]; expected [4, 8]");
  refused(
      [&] {
        relu_backward(queue, rows, TensorView(to.data() + 1, {4, 8}), y_rows);
      },
      "dx overlaps dy");
  refused([&] { pool_backward(queue, image, image, y, two); },
          "dy is [1, 1, 8, 8]; expected [1, 1, 4, 4]");
  refused([&] { pool_backward(queue, {}, {from.data(), {1, 1, 4, 4}}, y, two); }, "x is missing");
  refused([&] { pool_backward(queue, y, {from.data(), {1, 1, 4, 4}}, y, two); }, "dx overlaps x");
  refused([&] { resize_bilinear_backward(queue, rows, y); },
          "dy has extents [4, 8]; expected four");
  refused([&] { resize_bilinear_backward(queue, y, y); }, "dx overlaps dy");
  refused([&] { linear_backward(queue, {.dy = rows}); }, "neither dx nor dw is given");
  refused([&] { linear_backward(queue, {.dy = rows, .dx = y_rows}); }, "w is missing");
  refused([&] { linear_backward(queue, {.w = rows, .dy = rows, .dx = y_rows, .db = loss}); },
          "db is given without dw");
  refused([&] { softmax_cross_entropy(queue, {.logits = rows, .labels = labels}); },
          "neither loss nor dlogits");
  refused(
      [&] {
        softmax_cross_entropy(queue, {.logits = rows, .labels = {classes.data(), 3}, .loss = loss});
      },
      "there are 3 labels; expected 4");
  refused(
      [&] {
        softmax_cross_entropy(queue, {.logits = rows, .labels = {nullptr, 4}, .loss = loss});
      },
      "labels of [4] has no data");
  refused([&] { softmax_cross_entropy(queue, {.logits = rows, .labels = labels, .loss = y_rows}); },
          "loss is [4, 8]; expected [1]");
  refused([&] { sgd_step(queue, {.w = y_rows, .dw = rows}, {.learning_rate = -1}); },
          "learning_rate is -1; expected a number from 0 on");
  refused([&] { sgd_step(queue, {.w = y_rows, .dw = rows}, {.momentum = 0.9}); },
          "velocity is missing");
  refused([&] { sgd_step(queue, {.w = y_rows, .dw = rows, .velocity = v_rows}, {}); },
          "velocity is given without a momentum");
  refused([&] { sgd_step(queue, {.w = y_rows, .dw = rows}, {.nesterov = true}); },
          "nesterov without a momentum");
  refused([&] { sgd_step(queue, {.w = y_rows, .dw = y_rows}, {.learning_rate = 0.1}); },
          "w overlaps dw");
  CHECK(to == std::vector<float>(64, 7));
}
