// Outputs that lie over an input, the workspace, or themselves are refused; what interleaves is
// not.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "plumb/plumb.hpp"
#include "support/c_handles.hpp"
#include "support/devices.hpp"
#include "support/host_tensor.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

namespace {

template <class F>
void refused(const F& call, const std::string& what) {
  const Error error = refusal(call);
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK_THAT(error.what(), ContainsSubstring(what));
}

/// A buffer of consecutive numbers on a device, in which views lie at offsets.
class Buffer {
 public:
  Buffer(Queue& queue, std::int64_t elements)
      : tensor_(queue.device(), DType::f32, {elements}), kept_(static_cast<std::size_t>(elements)) {
    std::iota(kept_.begin(), kept_.end(), 1.0f);
    copy(queue, ConstTensorView(kept_.data(), {elements}), tensor_);
    queue.synchronize();
  }
  TensorView view(std::int64_t offset, const Extents& extents, const Strides& strides = {}) const {
    return {tensor_.data_as<float>() + offset, DType::f32, extents, tensor_.view().device(),
            strides};
  }
  std::vector<float> values(Queue& queue) const {
    std::vector<float> now(kept_.size());
    copy(queue, tensor_, TensorView(now.data(), tensor_.extents()));
    queue.synchronize();
    return now;
  }
  bool untouched(Queue& queue) const { return values(queue) == kept_; }
  /// What a view holds of the numbers that the buffer began with.
  float at(std::int64_t offset) const { return kept_[static_cast<std::size_t>(offset)]; }

 private:
  Tensor tensor_;
  std::vector<float> kept_;
};

/// Where the elements of a view lie, counted from the first element of the buffer.
std::set<std::int64_t> elements_of(std::int64_t offset, const Extents& extents,
                                   const Strides& strides) {
  std::set<std::int64_t> places;
  for_each_index(extents, [&](const Dims& index) {
    std::int64_t place = offset;
    for (int i = 0; i < extents.rank(); ++i) place += index[i] * strides[i];
    places.insert(place);
  });
  return places;
}

}  // namespace

TEST_CASE("overlap: y over x, w or bias is refused, and nothing is written") {
  for (const Device& device : all_devices()) {
    CAPTURE(device.info().name);
    Queue queue(device);
    const Buffer buffer(queue, 1000);
    const auto view = [&](std::int64_t offset, const Extents& extents) {
      return buffer.view(offset, extents);
    };
    const TensorView x = view(0, {2, 3, 5, 5}), w = view(200, {3, 3, 3, 3}), bias = view(300, {3});
    const auto call = [&](const TensorView& y) {
      return [&queue, x, w, bias, y] {
        conv(queue, {.x = x, .w = w, .bias = bias, .y = y}, {.padding = 1});
      };
    };
    refused(call(x), "y overlaps x: x is [2, 3, 5, 5] with strides [75, 25, 5, 1] at 0x");
    refused(call(view(149, {2, 3, 5, 5})), "y overlaps x");
    refused(call(view(151, {2, 3, 5, 5})), "y overlaps w");
    refused(call(view(280, {2, 3, 5, 5})), "y overlaps w");
    refused(call(view(281, {2, 3, 5, 5})), "y overlaps bias");
    refused(call(view(302, {2, 3, 5, 5})), "y overlaps bias");
    CHECK(buffer.untouched(queue));
    CHECK_NOTHROW(call(view(303, {2, 3, 5, 5}))());
    CHECK_FALSE(buffer.untouched(queue));
  }
}

TEST_CASE("overlap: a plan, packed filters and linear refuse it as conv() does") {
  for (const Device& device : all_devices()) {
    CAPTURE(device.info().name);
    Queue queue(device);
    const Buffer buffer(queue, 1000);
    const TensorView x = buffer.view(0, {1, 4, 5, 5}), w = buffer.view(100, {4, 4, 3, 3}),
                     bias = buffer.view(250, {4}), y = buffer.view(300, {1, 4, 3, 3});
    const ConvPlan plan(device, problem_of({.x = x, .w = w, .y = y}), {.bias = true});
    const PackedFilters filters = plan.pack(queue, w);
    for (const std::int64_t offset : {64, 99, 220, 252}) {
      CAPTURE(offset);
      const TensorView over = buffer.view(offset, {1, 4, 3, 3});
      refused([&] { plan.execute(queue, {.x = x, .w = w, .bias = bias, .y = over}); },
              "y overlaps");
    }
    const auto packed = [&](const TensorView& to) {
      return [&plan, &queue, &filters, x, bias, to] {
        plan.execute(queue, filters, {.x = x, .bias = bias, .y = to});
      };
    };
    refused(packed(buffer.view(99, {1, 4, 3, 3})), "y overlaps x");
    refused(packed(buffer.view(252, {1, 4, 3, 3})), "y overlaps bias");
    CHECK(buffer.untouched(queue));
    CHECK_NOTHROW(packed(buffer.view(100, {1, 4, 3, 3}))());  // w is free after the packing
    refused(
        [&] {
          linear(queue, {.x = buffer.view(0, {2, 8}),
                         .w = buffer.view(20, {4, 8}),
                         .y = buffer.view(15, {2, 4})});
        },
        "y overlaps x");
  }
}

TEST_CASE("overlap: the caller's workspace over a tensor is refused") {
  const Device device = Device::open("cpu");
  Queue queue(device);
  ConvProblem problem;
  problem.n = 2, problem.c = 3, problem.h = problem.w = 9, problem.k = 5, problem.r = problem.s = 3;
  const ConvPlan plan(device, problem, {.algorithm = "cpu.conv.im2col.fp32"});
  const auto bytes = static_cast<std::int64_t>(plan.workspace_bytes());
  REQUIRE(bytes > 0);
  const Tensor memory(device, DType::f32, {4096 + bytes / 4});
  const Tensor x(device, DType::f32, plan.problem().x_extents()),
      w(device, DType::f32, plan.problem().w_extents()),
      y(device, DType::f32, plan.problem().y_extents());
  auto* const base = memory.data_as<float>();
  float* const last = base + 64 + bytes / 4;
  const auto at = [&](float* place, const Extents& extents) { return TensorView(place, extents); };
  refused([&] { plan.execute(queue, {.x = at(last - 1, x.extents()), .w = w, .y = y}, base + 64); },
          "overlaps x");
  refused([&] { plan.execute(queue, {.x = x, .w = at(base, w.extents()), .y = y}, base + 64); },
          "overlaps w");
  refused([&] { plan.execute(queue, {.x = x, .w = w, .y = at(last - 1, y.extents())}, base + 64); },
          "overlaps y");
  refused(
      [&] { plan.execute(queue, {.x = x, .w = w, .y = at(base + 64, y.extents())}, base + 64); },
      "the workspace of " + std::to_string(bytes) + " bytes at 0x");
  CHECK_NOTHROW(plan.execute(queue, {.x = x, .w = w, .y = at(last, y.extents())}, base + 64));
}

TEST_CASE("overlap: operators refuse it; relu and softmax accept the same memory") {
  for (const Device& device : all_devices()) {
    CAPTURE(device.info().name);
    Queue queue(device);
    const Buffer buffer(queue, 400);
    const Extents four{1, 2, 4, 4}, two{4, 8};
    const TensorView x = buffer.view(0, four), shifted = buffer.view(1, four);
    refused([&] { relu(queue, x, shifted); }, "relu: y overlaps x");
    refused([&] { relu(queue, x, buffer.view(0, four, {32, 1, 8, 2})); }, "relu: y overlaps x");
    refused([&] { relu(queue, x, buffer.view(31, four)); }, "relu: y overlaps x");
    refused([&] { softmax(queue, buffer.view(0, two), buffer.view(8, two)); },
            "softmax: y overlaps x");
    refused(
        [&] {
          pool(queue, x, buffer.view(31, {1, 2, 2, 2}), {.window = 2, .stride = 2});
        },
        "pool: y overlaps x");
    refused(
        [&] {
          resize_bilinear(queue, x, buffer.view(31, {1, 2, 8, 8}));
        },
        "resize_bilinear: y overlaps x");
    refused([&] { copy(queue, x, shifted); }, "overlap");
    CHECK(buffer.untouched(queue));
    CHECK_NOTHROW(relu(queue, x, x));
    CHECK_NOTHROW(copy(queue, x, x));
    queue.synchronize();
    CHECK(buffer.untouched(queue));  // all of it is positive
    CHECK_NOTHROW(relu(queue, x, buffer.view(32, four)));
    CHECK_NOTHROW(softmax(queue, buffer.view(0, two), buffer.view(32, two)));
    std::vector<float> apart(32), in_place(32);
    copy(queue, buffer.view(32, two), TensorView(apart.data(), two));
    CHECK_NOTHROW(softmax(queue, buffer.view(0, two), buffer.view(0, two)));
    copy(queue, buffer.view(0, two), TensorView(in_place.data(), two));
    queue.synchronize();
    CHECK(in_place == apart);
    CHECK_NOTHROW(pool(queue, x, buffer.view(32, {1, 2, 2, 2}), {.window = 2, .stride = 2}));
    CHECK_NOTHROW(resize_bilinear(queue, x, buffer.view(32, {1, 2, 8, 8})));
    queue.synchronize();
  }
}

TEST_CASE("overlap: an output that overlaps itself is refused by every call") {
  const Device device = Device::open("cpu");
  Queue queue(device);
  const Buffer buffer(queue, 400);
  const TensorView x = buffer.view(0, {1, 2, 4, 4});
  const TensorView folded = buffer.view(100, {1, 2, 4, 4}, {32, 16, 1, 1});
  refused([&] { relu(queue, x, folded); }, "overlaps itself");
  refused([&] { pool(queue, x, folded, {}); }, "overlaps itself");
  refused([&] { resize_bilinear(queue, x, folded); }, "overlaps itself");
  refused(
      [&] {
        softmax(queue, buffer.view(0, {4, 4}), buffer.view(100, {4, 4}, {1, 1}));
      },
      "overlaps itself");
  refused(
      [&] {
        conv(queue, {.x = x, .w = buffer.view(50, {2, 2, 1, 1}), .y = folded});
      },
      "overlaps itself");
  refused(
      [&] {
        linear(queue, {.x = buffer.view(0, {4, 2}),
                       .w = buffer.view(50, {4, 2}),
                       .y = buffer.view(100, {4, 4}, {0, 1})});
      },
      "overlaps itself");
  // As many elements as it reaches over, and two of them are one.
  const TensorView dense = buffer.view(0, {2, 2, 2}, {1, 1, 5});
  refused([&] { copy(queue, dense, buffer.view(100, {2, 2, 2}, {1, 1, 5})); }, "overlaps itself");
  refused([&] { Tensor(device, DType::f32, {3, 3}, {1, 1}); }, "overlaps itself");
  CHECK(buffer.untouched(queue));
}

TEST_CASE("overlap: views that interleave in one buffer are told apart, and computed") {
  for (const Device& device : all_devices()) {
    CAPTURE(device.info().name);
    Queue queue(device);
    const Buffer buffer(queue, 2000);
    struct Views {
      const char* what;
      std::int64_t x, y;
      Strides x_strides, y_strides;
    };
    const Extents extents{3, 2, 4, 5};
    const Views apart[] = {
        {"even and odd columns", 0, 1, {80, 40, 10, 2}, {80, 40, 10, 2}},
        {"even and odd columns of rows of 11", 0, 1, {88, 44, 11, 2}, {88, 44, 11, 2}},
        {"left and right halves of rows", 0, 5, {80, 40, 10, 1}, {80, 40, 10, 1}},
        {"channels of a concatenation", 0, 40, {80, 20, 5, 1}, {80, 20, 5, 1}},
        {"channels of NHWC", 0, 2, {80, 1, 20, 4}, {80, 1, 20, 4}},
        {"one mirrored", 8, 1, {80, 40, 10, -2}, {80, 40, 10, 2}},
        {"x a row for all, between rows of y", 35, 0, {0, 0, 0, 1}, {140, 70, 10, 1}},
        {"other orders", 0, 1, {240, 80, 10, 2}, {80, 240, 10, 2}},
    };
    for (const Views& views : apart) {
      CAPTURE(views.what);
      CHECK_NOTHROW(relu(queue, buffer.view(views.x, extents, views.x_strides),
                         buffer.view(views.y, extents, views.y_strides)));
      // The same views where they meet in one element.
      refused(
          [&] {
            relu(queue, buffer.view(views.y + 2 * views.y_strides[0], extents, views.x_strides),
                 buffer.view(views.y, extents, views.y_strides));
          },
          "y overlaps x");
    }
    const Tensor w(device, DType::f32, {1, 1, 1, 1});
    const float two = 2;
    copy(queue, ConstTensorView(&two, {1, 1, 1, 1}), w);
    const Buffer fresh(queue, 200);
    conv(queue, {.x = fresh.view(0, {1, 1, 10, 10}, {200, 200, 20, 2}),
                 .w = w,
                 .y = fresh.view(1, {1, 1, 10, 10}, {200, 200, 20, 2})});
    const auto values = fresh.values(queue);
    for (std::int64_t i = 0; i < 200; i += 2) {
      REQUIRE(values[static_cast<std::size_t>(i)] == fresh.at(i));
      REQUIRE(values[static_cast<std::size_t>(i + 1)] == 2 * fresh.at(i));
    }
  }
}

TEST_CASE("overlap: decided as by listing every element, over random views") {
  const Device device = Device::open("cpu");
  Queue queue(device);
  const Buffer buffer(queue, 4000);
  Random random(11);
  const auto whole = [&](int low, int high) {
    return static_cast<std::int64_t>(random.integer(low, high));
  };
  int met = 0, apart = 0, refused_though_apart = 0;
  for (int round = 0; round < 4000; ++round) {
    const Extents extents{whole(1, 4), whole(1, 4), whole(1, 4)};
    const auto strides = [&](bool output) {
      Strides made{};
      do {
        const auto one = [&] { return whole(output ? 1 : -3, 4) * whole(1, 9); };
        made = {one() * 3, one(), one()};
      } while (output && elements_of(0, extents, made).size() !=
                             static_cast<std::size_t>(element_count(extents)));
      return made;
    };
    const Strides of_x = strides(false), of_y = strides(true);
    const std::int64_t x = whole(1000, 1400), y = whole(900, 1400);
    const auto in_x = elements_of(x, extents, of_x), in_y = elements_of(y, extents, of_y);
    bool shared = false;
    for (const std::int64_t place : in_x) shared |= in_y.count(place) > 0;
    std::string said;
    try {
      relu(queue, buffer.view(x, extents, of_x), buffer.view(y, extents, of_y));
    } catch (const Error& error) {
      said = error.what();
    }
    if (said.find("overlaps itself") != std::string::npos) continue;  // stricter than need be
    CAPTURE(to_string(extents), to_string(of_x), to_string(of_y), x, y, said);
    (shared ? met : apart) += 1;
    if (shared) REQUIRE(said.find("y overlaps x") != std::string::npos);
    refused_though_apart += !shared && !said.empty();
  }
  CHECK(met > 300);
  CHECK(apart > 300);
  CHECK(refused_though_apart == 0);
}

TEST_CASE("overlap: an empty batch overlaps nothing") {
  const Device device = Device::open("cpu");
  Queue queue(device);
  const Buffer buffer(queue, 100);
  const TensorView none = buffer.view(0, {0, 2, 4, 4});
  CHECK_NOTHROW(conv(queue, {.x = none, .w = buffer.view(0, {2, 2, 1, 1}), .y = none}));
  CHECK_NOTHROW(relu(queue, none, buffer.view(1, {0, 2, 4, 4})));
  CHECK_NOTHROW(pool(queue, none, none, {}));
  CHECK(buffer.untouched(queue));
}

TEST_CASE("overlap: the pipeline and conv_host refuse it before anything runs") {
  const Device device = Device::open("auto");
  std::vector<float> memory(200);
  std::iota(memory.begin(), memory.end(), 1.0f);
  const std::vector<float> kept = memory;
  const TensorView x(memory.data(), {4, 1, 3, 3}), w(memory.data() + 100, {1, 1, 1, 1}),
      bias(memory.data() + 120, {1}), y(memory.data() + 35, {4, 1, 3, 3});
  refused([&] { conv_host(device, {.x = x, .w = w, .bias = bias, .y = y}); }, "y overlaps x");
  const TensorView over_w(memory.data() + 80, {4, 1, 3, 3});
  refused([&] { conv_host(device, {.x = x, .w = w, .bias = bias, .y = over_w}); }, "y overlaps w");
  const TensorView over_bias(memory.data() + 101, {4, 1, 3, 3});
  ConvPipeline pipeline(device, problem_of({.x = x, .w = w, .y = y}), {.bias = true});
  refused([&] { pipeline.run({.x = x, .w = w, .bias = bias, .y = over_bias}); }, "y overlaps bias");
  refused([&] { pipeline.run({.x = x, .w = w, .bias = bias, .y = x}); }, "y overlaps x");
  CHECK(memory == kept);
}

TEST_CASE("overlap: C refuses it with a status") {
  const CDevice device;
  const CQueue queue(device);
  std::vector<float> memory(2000, 1);
  const CPlan plan(device, small_problem());
  const auto refuses = [](plumb_status status, const char* what) {
    CHECK(status == PLUMB_INVALID_ARGUMENT);
    CHECK_THAT(plumb_last_message(), ContainsSubstring(what));
  };
  float* const at = memory.data();
  refuses(plumb_plan_execute(plan, queue, at, at + 1500, nullptr, at, nullptr), "y overlaps x");
  refuses(plumb_copy(queue, at, at + 3, 16), "overlap");
  CHECK(plumb_copy(queue, at, at + 4, 16) == PLUMB_OK);
  CHECK(plumb_copy(queue, at, at, 16) == PLUMB_OK);
  const std::int64_t extents[4] = {1, 1, 4, 4};
  plumb_tensor x, y, w;
  const std::int64_t one[4] = {1, 1, 1, 1};
  REQUIRE(plumb_tensor_init(&x, at, nullptr, PLUMB_F32, 4, extents, nullptr) == PLUMB_OK);
  REQUIRE(plumb_tensor_init(&y, at + 15, nullptr, PLUMB_F32, 4, extents, nullptr) == PLUMB_OK);
  REQUIRE(plumb_tensor_init(&w, at + 100, nullptr, PLUMB_F32, 4, one, nullptr) == PLUMB_OK);
  refuses(plumb_conv(queue, &x, &w, nullptr, &y, nullptr, nullptr), "y overlaps x");
  refuses(plumb_conv_host(device, &x, &w, nullptr, &y, nullptr, nullptr), "y overlaps x");
  refuses(plumb_relu(queue, &x, &y), "y overlaps x");
  refuses(plumb_resize_bilinear(queue, &x, &y), "y overlaps x");
  CHECK(plumb_relu(queue, &x, &x) == PLUMB_OK);
}
