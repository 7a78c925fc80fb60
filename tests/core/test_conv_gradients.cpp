// Gradients through the calls that users make, with every algorithm of the CPU.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "plumb/plumb.hpp"
#include "support/devices.hpp"
#include "support/host_tensor.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

namespace {

ConvProblem problem_of_direction(const char* text, Direction direction, DType dtype = DType::f32) {
  ConvProblem problem = parse_problem(text).problem;
  problem.direction = direction;
  problem.dtype = dtype;
  return check(problem);
}

/// What a convolution of these does to the sum of y dy as one element grows by one: for a function
/// that is linear in it, the gradient.
std::vector<double> differences(const ConvProblem& gradient, HostTensor x, HostTensor w,
                                const HostTensor& dy) {
  ConvProblem forward = gradient;
  forward.direction = Direction::forward;
  const auto weights = dy.values();
  const auto value = [&] {
    const auto y = conv_oracle(forward, x.view(), w.view());
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i].y * weights[i];
    return sum;
  };
  HostTensor& varied = gradient.direction == Direction::backward_data ? x : w;
  const double before = value();
  std::vector<double> all;
  for_each_index(output_of(gradient).extents, [&](const Dims& index) {
    const double old = varied.at(index);
    varied.set(index, old + 1);
    all.push_back(value() - before);
    varied.set(index, old);
  });
  return all;
}

constexpr const char* shapes[] = {
    "mb2ic3ih6iw7oc4kh3ph1",
    "mb2ic2ih9iw8oc3kh3sh2ph1",
    "g2mb2ic4ih7iw9oc6kh3kw2sh2sw3ph2pw0dh1dw0",
    "mb1ic2ih11iw10oc2kh2kw3sh4sw4ph0pw1dh1dw1",
    "mb2ic2ih5iw12oc3kh2kw1sh3sw5",
    "mb2ic3iw17oc2kw5sw2pw2",
    "mb1ic2id4ih5iw6oc2kd2kh3kw2sd2sh1sw2pd1ph1pw1",
    "mb1ic1id5ih4iw4oc2kd1kh2kw2sd3sh1sw1",
    "mb2ic2ih5iw6oc3kh3ph2_padperiodic",
    "mb1ic2ih4iw5oc2kh3sh2ph3_padreflect/clamp",
    "mb1ic1id3ih3iw4oc2kd3kh2kw3pd1ph1pw5_padsymmetric/zeros/periodic",
};

}  // namespace

TEST_CASE("gradients: the oracle's are the differences of its convolution") {
  for (const char* text : shapes)
    for (const Direction direction : {Direction::backward_data, Direction::backward_weights}) {
      CAPTURE(text, to_string(direction));
      const ConvProblem problem = problem_of_direction(text, direction, DType::f64);
      const HostTensor x = integers(DType::f64, problem.x_extents(), 1),
                       w = integers(DType::f64, problem.w_extents(), 2),
                       dy = integers(DType::f64, problem.y_extents(), 3);
      const bool of_data = direction == Direction::backward_data;
      const auto gradient =
          conv_oracle(problem, of_data ? dy.view() : x.view(), of_data ? w.view() : dy.view());
      const auto expected = differences(problem, x, w, dy);
      REQUIRE(gradient.size() == expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) REQUIRE(gradient[i].y == expected[i]);
    }
}

TEST_CASE("gradients: every algorithm and stored type has the oracle's") {
  const Device cpu = Device::open("cpu");
  Queue queue(cpu);
  int runs = 0;
  for (const char* text : shapes)
    for (const DType dtype : {DType::f32, DType::f64, DType::f16})
      for (const Direction direction : {Direction::backward_data, Direction::backward_weights}) {
        const ConvProblem problem = problem_of_direction(text, direction, dtype);
        const bool of_data = direction == Direction::backward_data;
        const HostTensor x = integers(dtype, problem.x_extents(), 1),
                         w = integers(dtype, problem.w_extents(), 2),
                         dy = integers(dtype, problem.y_extents(), 3);
        const auto expected =
            conv_oracle(problem, of_data ? dy.view() : x.view(), of_data ? w.view() : dy.view());
        for (const ConvAlgorithm* algorithm : conv_algorithms(cpu)) {
          if (!ask(*algorithm, problem, cpu.info()).support) continue;
          CAPTURE(text, to_string(dtype), to_string(direction), algorithm->name);
          ++runs;
          const ConvOptions options{.math = Math::fp16, .algorithm = std::string(algorithm->name)};
          HostTensor output(dtype, output_of(problem).extents);
          if (of_data)
            conv_backward_data(queue, {.dy = dy.view(), .w = w.view(), .dx = output.view()},
                               problem, options);
          else
            conv_backward_weights(queue, {.x = x.view(), .dy = dy.view(), .dw = output.view()},
                                  problem, options);
          const auto values = output.values();
          for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == expected[i].y);
          REQUIRE(output.surroundings_untouched());
        }
      }
  CHECK(runs > 200);
}

TEST_CASE("gradients: the bias's, the ReLU's mask, and sums to what was there") {
  Queue queue(Device::open("cpu"));
  const ConvProblem problem =
      problem_of_direction("mb3ic2ih6iw7oc4kh3sh2ph1", Direction::backward_weights);
  const HostTensor x = integers(DType::f32, problem.x_extents(), 1),
                   dy = integers(DType::f32, problem.y_extents(), 3),
                   y = integers(DType::f32, problem.y_extents(), 4);
  HostTensor masked = dy;
  for_each_index(problem.y_extents(), [&](const Dims& index) {
    if (!(y.at(index) > 0)) masked.set(index, 0);
  });
  HostTensor dw = integers(DType::f32, problem.w_extents(), 5), db = integers(DType::f32, {4}, 6);
  const auto dw_before = dw.values(), db_before = db.values();
  conv_backward_weights(
      queue, {.x = x.view(), .dy = dy.view(), .dw = dw.view(), .db = db.view(), .mask = y.view()},
      problem, {.accumulate = true});
  const auto expected = conv_oracle(problem, x.view(), masked.view());
  for (std::size_t i = 0; i < expected.size(); ++i)
    REQUIRE(dw.values()[i] == dw_before[i] + expected[i].y);
  std::vector<double> sums = db_before;
  for_each_index(problem.y_extents(), [&](const Dims& index) {
    sums[static_cast<std::size_t>(index[1])] += masked.at(index);
  });
  CHECK(db.values() == sums);

  ConvProblem data = problem;
  data.direction = Direction::backward_data;
  const HostTensor w = integers(DType::f32, problem.w_extents(), 2);
  HostTensor dx(DType::f32, problem.x_extents());
  conv_backward_data(queue, {.dy = dy.view(), .w = w.view(), .dx = dx.view(), .mask = y.view()},
                     problem);
  const auto dx_expected = conv_oracle(data, masked.view(), w.view());
  for (std::size_t i = 0; i < dx_expected.size(); ++i) REQUIRE(dx.values()[i] == dx_expected[i].y);
}

TEST_CASE("gradients: a mask of a 1-D layer is read by its own strides") {
  Queue queue(Device::open("cpu"));
  const std::vector<float> dy{1, 2, 3, 4, 5, 6, 7, 8}, w{1, 10}, y{1, 0, 1, 0, 0, 1, 0, 1};
  std::vector<float> dx(10), dw(2);
  conv_backward_data(queue, {.dy = {dy.data(), {2, 1, 4}},
                             .w = {w.data(), {1, 1, 2}},
                             .dx = {dx.data(), {2, 1, 5}},
                             .mask = {y.data(), {2, 1, 4}}});
  CHECK(dx == std::vector<float>{1, 10, 3, 30, 0, 0, 6, 60, 8, 80});
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  conv_backward_weights(queue, {.x = {x.data(), {2, 1, 5}},
                                .dy = {dy.data(), {2, 1, 4}},
                                .dw = {dw.data(), {1, 1, 2}},
                                .mask = {y.data(), {2, 1, 4}}});
  CHECK(dw == std::vector<float>{1 + 9 + 42 + 72, 2 + 12 + 48 + 80});
}

TEST_CASE("gradients: dy does not count where the mask is NaN, whatever it is") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Device& device : all_devices())
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      CAPTURE(to_string(device.id()), to_string(dtype));
      Queue queue(device);
      HostTensor dy = HostTensor::of(dtype, {1, 1, 5}, {3, nan, 5, 7, 11});
      HostTensor y = HostTensor::of(dtype, {1, 1, 5}, {nan, nan, 1, 0, 2});
      HostTensor x = HostTensor::of(dtype, {1, 1, 5}, {1, 2, 3, 4, 5});
      HostTensor w = HostTensor::of(dtype, {1, 1, 1}, {2});
      HostTensor dx(dtype, {1, 1, 5}), dw(dtype, {1, 1, 1}), db(dtype, {1});
      const DeviceTensor to_dy(queue, dy), to_y(queue, y), to_x(queue, x), to_w(queue, w);
      const DeviceTensor to_dx(queue, dx), to_dw(queue, dw), to_db(queue, db);
      conv_backward_data(queue, {.dy = to_dy, .w = to_w, .dx = to_dx, .mask = to_y});
      conv_backward_weights(queue,
                            {.x = to_x, .dy = to_dy, .dw = to_dw, .db = to_db, .mask = to_y});
      to_dx.read_back(queue, dx);
      to_dw.read_back(queue, dw);
      to_db.read_back(queue, db);
      CHECK(dx.values() == std::vector<double>{0, 0, 10, 0, 22});
      CHECK(dw.values() == std::vector<double>{5 * 3 + 11 * 5});
      CHECK(db.values() == std::vector<double>{16});
    }
}

TEST_CASE("gradients: of no images the weights' is zero, and nothing is added") {
  Queue queue(Device::open("cpu"));
  const float nothing = 0;
  const ConstTensorView x(&nothing, {0, 2, 5, 5}), dy(&nothing, {0, 3, 3, 3});
  HostTensor dw(DType::f32, {3, 2, 3, 3}), db(DType::f32, {3});
  conv_backward_weights(queue, {.x = x, .dy = dy, .dw = dw.view(), .db = db.view()});
  CHECK(dw.values() == std::vector<double>(54, 0.0));
  CHECK(db.values() == std::vector<double>(3, 0.0));
  HostTensor old = integers(DType::f32, {3, 2, 3, 3}, 1);
  const auto before = old.values();
  conv_backward_weights(queue, {.x = x, .dy = dy, .dw = old.view()}, {}, {.accumulate = true});
  CHECK(old.values() == before);
}

TEST_CASE("gradients: packed filters give what those packed in the call gave") {
  const Device cpu = Device::open("cpu");
  Queue queue(cpu);
  const ConvProblem problem =
      problem_of_direction("g2mb2ic4ih9iw8oc6kh3sh2ph1", Direction::backward_data);
  const HostTensor dy = integers(DType::f32, problem.y_extents(), 1),
                   w = integers(DType::f32, problem.w_extents(), 2);
  const ConvPlan plan(cpu, problem);
  HostTensor dx(DType::f32, problem.x_extents()), again = dx;
  plan.execute(queue, {.x = dy.view(), .w = w.view(), .y = dx.view()});
  CHECK(plan.packs_filters());
  const PackedFilters packed = plan.pack(queue, w.view());
  plan.execute(queue, packed, {.x = dy.view(), .y = again.view()});
  CHECK(again.bytes() == dx.bytes());
  const ConvPlan weights(cpu,
                         problem_of_direction("mb2ic4ih9iw8oc6kh3", Direction::backward_weights));
  CHECK_THAT(refusal([&] { weights.pack(queue, dy.view()); }).what(),
             ContainsSubstring("no filters to pack"));
}

TEST_CASE("gradients: a transposed convolution has the extents that its name promises") {
  Queue queue(Device::open("cpu"));
  const ConvGeometry geometry{.stride = {3, 2}, .dilation = {1, 2}, .padding = {1, 0}};
  const HostTensor x = integers(DType::f32, {2, 3, 4, 5}, 1),
                   w = integers(DType::f32, {3, 2, 3, 2}, 2), bias = integers(DType::f32, {2}, 3);
  for (const std::int64_t more : {0, 1}) {
    const Extents extents =
        transposed_extents(x.view().extents(), w.view().extents(), geometry, {0, more + 1, more});
    CHECK(extents == Extents{2, 2, 10 + more + 1, 11 + more});
    HostTensor y(DType::f32, extents);
    conv_transpose(queue, {.x = x.view(), .w = w.view(), .bias = bias.view(), .y = y.view()},
                   geometry);
    // Each pixel of x puts a filter's worth into y.
    HostTensor expected(DType::f32, extents);
    for_each_index(extents, [&](const Dims& i) { expected.set(i, bias.at({i[1]})); });
    for_each_index(x.view().extents(), [&](const Dims& i) {
      for_each_index(w.view().extents(), [&](const Dims& tap) {
        const std::int64_t h = i[2] * 3 + tap[2] - 1, v = i[3] * 2 + tap[3] * 2;
        if (tap[0] != i[1] || h < 0 || h >= extents[2] || v >= extents[3]) return;
        const Dims at{i[0], tap[1], h, v};
        expected.set(at, expected.at(at) + x.at(i) * w.at(tap));
      });
    });
    CHECK(y.values() == expected.values());
  }
  CHECK_THAT(refusal([&] {
               transposed_extents({2, 3, 4, 5}, {3, 2, 3, 2}, geometry, {0, 3, 0});
             }).what(),
             ContainsSubstring("output_padding is 3 where the stride is 3"));
  CHECK_THAT(refusal([&] {
               transposed_extents({2, 3, 4, 5}, {4, 2, 3, 2}, geometry);
             }).what(),
             ContainsSubstring("expected filters for each channel of x"));
}

TEST_CASE("gradients: what does not fit is named as the caller knows it") {
  Queue queue(Device::open("cpu"));
  std::vector<float> data(4096);
  const auto view = [&](const Extents& extents) { return TensorView(data.data(), extents); };
  const auto says = [](const auto& call, const std::string& words) {
    const Error error = refusal(call);
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK_THAT(error.what(), ContainsSubstring(words));
  };
  const TensorView x = view({2, 3, 6, 6}), w = view({4, 3, 3, 3}), y = view({2, 4, 4, 4});
  says(
      [&] {
        conv_backward_data(queue, {.dy = view({2, 4, 4, 5}), .w = w, .dx = x});
      },
      "dy is [2, 4, 4, 5]; expected [2, 4, 4, 4]");
  says(
      [&] {
        conv_backward_data(queue, {.dy = y, .w = view({4, 2, 3, 3}), .dx = x});
      },
      "dx is [2, 3, 6, 6]");
  says([&] { conv_backward_data(queue, {.dy = y, .w = w}); }, "dx is missing");
  says([&] { conv_backward_data(queue, {.dy = y, .w = w, .dx = x}); }, "dx overlaps dy");
  says([&] { conv_backward_weights(queue, {.x = x, .dy = y, .dw = w}); }, "dw overlaps x");
  says(
      [&] {
        conv_backward_weights(queue, {.x = view({2, 3, 6}), .dy = y, .dw = w});
      },
      "dw has extents");
  const auto at = [&](std::size_t from, const Extents& extents) {
    return TensorView(data.data() + from, extents);
  };
  const TensorView other_y = at(1000, {2, 4, 4, 4}), other_w = at(2000, {4, 3, 3, 3});
  says([&] { conv_backward_data(queue, {.dy = other_y, .w = other_w, .dx = x, .mask = y}); },
       "dx overlaps mask");
  says([&] { conv_backward_weights(queue, {.x = x, .dy = other_y, .dw = other_w, .mask = w}); },
       "mask");
  const auto with_db = [&](std::size_t from, std::size_t mask) {
    conv_backward_weights(queue, {.x = x,
                                  .dy = other_y,
                                  .dw = other_w,
                                  .db = at(from, {4}),
                                  .mask = at(mask, {2, 4, 4, 4})});
  };
  says([&] { with_db(0, 3000); }, "db overlaps x");
  says([&] { with_db(1004, 3000); }, "db overlaps dy");
  says([&] { with_db(2001, 3000); }, "dw overlaps db");
  says([&] { with_db(3001, 3000); }, "db overlaps mask");
  says([&] { with_db(3500, 2100); }, "dw overlaps mask");
  with_db(3500, 3000);
  const TensorView twice(data.data(), DType::f32, {2, 3, 6, 6}, host, {0, 36, 6, 1});
  says([&] { conv_backward_data(queue, {.dy = y, .w = w, .dx = twice}); }, "dx");
  ConvProblem problem = problem_of_direction("mb2ic3ih6oc4kh3", Direction::backward_weights);
  says([&] { ConvPlan(queue.device(), problem, {.activation = Activation::relu}); }, "activated");
  problem.direction = Direction::forward;
  says([&] { ConvPlan(queue.device(), problem, {.relu_mask = true}); }, "expected a gradient");
  problem.direction = Direction::backward_data;
  problem.pool = Pool::max_2x2;
  says([&] { check(problem); }, "pooling 2x2 in backward_data");
}
