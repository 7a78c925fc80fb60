// The gradients of the operators around convolution, called from C: what C++ makes of the same
// numbers, bit for bit, on every device.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <deque>
#include <functional>
#include <vector>

#include "c_case.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::c;
using Catch::Matchers::ContainsSubstring;

namespace {

using Extent = std::vector<std::int64_t>;

std::size_t count(const Extent& extents) {
  std::size_t product = 1;
  for (const std::int64_t extent : extents) product *= static_cast<std::size_t>(extent);
  return product;
}

/// A tensor in a device's memory that C++ and C both see.
struct Both {
  Both(const CDevice& device, const CQueue& queue, const Device& same, const Extent& of,
       std::vector<float> array)
      : memory(device, queue, array),
        in_c(tensor(memory, device, of)),
        view(static_cast<void*>(memory), DType::f32, Extents(of.data(), of.size()), same.id()) {}
  OnDevice memory;
  plumb_tensor in_c;
  TensorView view;
};

/// A device through C and through C++, and what is made on it.
struct Twice {
  explicit Twice(const Device& of)
      : same(of), device(to_string(of.id()).c_str()), queue(device), cpp(of) {}
  Both input(const Extent& extents, float step) {
    return Both(device, queue, same, extents, values(count(extents), step));
  }
  /// Whether both ways write the same; of several outputs the last that were written.
  void check(const std::vector<Extent>& outputs,
             const std::function<plumb_status(const std::deque<Both>&)>& in_c,
             const std::function<void(const std::deque<Both>&)>& in_cpp, float held = NAN) {
    const auto made = [&] {
      std::deque<Both> all;
      for (const Extent& extents : outputs)
        all.emplace_back(device, queue, same, extents, std::vector<float>(count(extents), held));
      return all;
    };
    const std::deque<Both> c = made(), expected = made();
    const plumb_status status = in_c(c);
    INFO(plumb_last_message());
    REQUIRE(status == PLUMB_OK);
    in_cpp(expected);
    cpp.synchronize();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::vector<float> written = c[i].memory.download();
      CHECK(written == expected[i].memory.download());
      for (const float value : written) CHECK(std::isfinite(value));
    }
  }
  Device same;
  CDevice device;
  CQueue queue;
  Queue cpp;
};

}  // namespace

TEST_CASE("c: gradients of ReLU, pooling and resizing are those of C++") {
  for (const Device& device : all_devices()) {
    Twice twice(device);
    CAPTURE(to_string(device.id()));
    const Extent image{2, 3, 6, 5};
    const Both x = twice.input(image, 0.37f), dy = twice.input(image, 1.1f);
    twice.check(
        {image},
        [&](auto& dx) { return plumb_relu_backward(twice.queue, &x.in_c, &dy.in_c, &dx[0].in_c); },
        [&](auto& dx) { relu_backward(twice.cpp, x.view, dy.view, dx[0].view); });

    plumb_pool_geometry window;
    REQUIRE(plumb_pool_geometry_init(&window) == PLUMB_OK);
    window.window_h = 3, window.window_w = 2;
    const Both pooled = twice.input({2, 3, 4, 4}, 0.9f);
    for (const bool maximum : {true, false}) {
      window.kind = maximum ? PLUMB_POOL_MAX : PLUMB_POOL_AVERAGE;
      const PoolGeometry geometry{.kind = maximum ? PoolKind::max : PoolKind::average,
                                  .window = {3, 2}};
      // The average does not look at x.
      twice.check(
          {image},
          [&](auto& dx) {
            return plumb_pool_backward(twice.queue, maximum ? &x.in_c : nullptr, &pooled.in_c,
                                       &dx[0].in_c, &window);
          },
          [&](auto& dx) {
            pool_backward(twice.cpp, maximum ? ConstTensorView(x.view) : ConstTensorView(),
                          pooled.view, dx[0].view, geometry);
          });
    }

    const Both large = twice.input({2, 3, 11, 7}, 0.7f);
    twice.check(
        {image},
        [&](auto& dx) {
          return plumb_resize_bilinear_backward(twice.queue, &large.in_c, &dx[0].in_c);
        },
        [&](auto& dx) { resize_bilinear_backward(twice.cpp, large.view, dx[0].view); });
  }
}

TEST_CASE("c: every tensor of a linear layer's gradients arrives") {
  for (const Device& device : all_devices()) {
    Twice twice(device);
    CAPTURE(to_string(device.id()));
    const Both x = twice.input({5, 4}, 0.37f), w = twice.input({3, 4}, 0.71f);
    const Both dy = twice.input({5, 3}, 1.3f), mask = twice.input({5, 3}, 2.1f);
    plumb_linear_gradients tensors;
    plumb_conv_options_nd options;
    REQUIRE(plumb_conv_options_nd_init(&options) == PLUMB_OK);
    for (const bool accumulate : {false, true}) {
      options.accumulate = accumulate;
      twice.check(
          {{5, 4}, {3, 4}, {3}},
          [&](auto& out) {
            REQUIRE(plumb_linear_gradients_init(&tensors) == PLUMB_OK);
            tensors.x = &x.in_c, tensors.w = &w.in_c, tensors.dy = &dy.in_c,
            tensors.mask = &mask.in_c;
            tensors.dx = &out[0].in_c, tensors.dw = &out[1].in_c, tensors.db = &out[2].in_c;
            return plumb_linear_backward(twice.queue, &tensors, &options);
          },
          [&](auto& out) {
            linear_backward(twice.cpp,
                            {.x = x.view,
                             .w = w.view,
                             .dy = dy.view,
                             .dx = out[0].view,
                             .dw = out[1].view,
                             .db = out[2].view,
                             .mask = mask.view},
                            {.accumulate = accumulate});
          },
          accumulate ? 0.25f : NAN);
    }
    // Those that are NULL are not computed.
    twice.check(
        {{5, 4}},
        [&](auto& out) {
          REQUIRE(plumb_linear_gradients_init(&tensors) == PLUMB_OK);
          tensors.w = &w.in_c, tensors.dy = &dy.in_c, tensors.dx = &out[0].in_c;
          return plumb_linear_backward(twice.queue, &tensors, nullptr);
        },
        [&](auto& out) {
          linear_backward(twice.cpp, {.w = w.view, .dy = dy.view, .dx = out[0].view});
        });
  }
}

TEST_CASE("c: cross-entropy and a step of SGD are those of C++") {
  for (const Device& device : all_devices()) {
    Twice twice(device);
    CAPTURE(to_string(device.id()));
    const Both logits = twice.input({3, 4}, 0.37f);
    const std::vector<std::int64_t> numbers{2, 9, 0, 9, 3};
    const std::size_t bytes = numbers.size() * sizeof(std::int64_t);
    void* memory = nullptr;
    REQUIRE(plumb_allocate(twice.device, bytes, PLUMB_DEVICE_MEMORY, &memory) == PLUMB_OK);
    REQUIRE(plumb_copy(twice.queue, memory, numbers.data(), bytes) == PLUMB_OK);
    REQUIRE(plumb_queue_synchronize(twice.queue) == PLUMB_OK);
    const auto* const first = static_cast<const std::int64_t*>(memory);
    const plumb_labels labels{.data = first, .count = 3, .stride = 2, .device = twice.device};
    twice.check(
        {{1}, {3, 4}},
        [&](auto& out) {
          return plumb_softmax_cross_entropy(twice.queue, &logits.in_c, &labels, &out[0].in_c,
                                             &out[1].in_c, 0.5);
        },
        [&](auto& out) {
          softmax_cross_entropy(
              twice.cpp,
              {.logits = logits.view,
               .labels = {.data = first, .count = 3, .device = device.id(), .stride = 2},
               .loss = out[0].view,
               .dlogits = out[1].view},
              0.5);
        });
    REQUIRE(plumb_queue_synchronize(twice.queue) == PLUMB_OK);
    REQUIRE(plumb_deallocate(twice.device, memory, bytes, PLUMB_DEVICE_MEMORY) == PLUMB_OK);

    plumb_sgd_options options;
    REQUIRE(plumb_sgd_options_init(&options) == PLUMB_OK);
    CHECK(options.learning_rate == SgdOptions{}.learning_rate);
    options.learning_rate = 0.25, options.momentum = 0.5, options.weight_decay = 0.125;
    options.nesterov = 1;
    const Both dw = twice.input({3, 4}, 0.83f);
    twice.check(
        {{3, 4}, {3, 4}},
        [&](auto& out) {
          return plumb_sgd_step(twice.queue, &out[0].in_c, &dw.in_c, &out[1].in_c, &options);
        },
        [&](auto& out) {
          sgd_step(
              twice.cpp, {.w = out[0].view, .dw = dw.view, .velocity = out[1].view},
              {.learning_rate = 0.25, .momentum = 0.5, .weight_decay = 0.125, .nesterov = true});
        },
        0.75f);
    twice.check(
        {{3, 4}},
        [&](auto& out) {
          return plumb_sgd_step(twice.queue, &out[0].in_c, &dw.in_c, nullptr, nullptr);
        },
        [&](auto& out) { sgd_step(twice.cpp, {.w = out[0].view, .dw = dw.view}, {}); }, 0.75f);
  }
}

TEST_CASE("c: gradients of operators refuse with the value and what was expected") {
  const CDevice device;
  const CQueue queue(device);
  std::vector<float> memory(64);
  const auto refused = [](plumb_status status, const char* text) {
    CHECK(status == PLUMB_INVALID_ARGUMENT);
    CHECK_THAT(plumb_last_message(), ContainsSubstring(text));
  };
  const plumb_tensor x = tensor(memory.data(), nullptr, {2, 4});
  const plumb_tensor other = tensor(memory.data() + 8, nullptr, {2, 3});
  const plumb_tensor dx = tensor(memory.data() + 16, nullptr, {2, 4});
  refused(plumb_relu_backward(queue, &x, &other, &dx), "expected");
  plumb_pool_geometry window;
  REQUIRE(plumb_pool_geometry_init(&window) == PLUMB_OK);
  refused(plumb_pool_backward(queue, nullptr, &x, &dx, &window), "x is NULL");
  window.kind = 7;
  refused(plumb_pool_backward(queue, &x, &x, &dx, &window), "kind is 7; expected 0 to 1");
  plumb_linear_gradients tensors{};
  refused(plumb_linear_backward(queue, &tensors, nullptr), "tensors.struct_size is 0");
  REQUIRE(plumb_linear_gradients_init(&tensors) == PLUMB_OK);
  refused(plumb_linear_backward(queue, &tensors, nullptr), "dy is NULL");
  plumb_sgd_options options{};
  refused(plumb_sgd_step(queue, &dx, &x, nullptr, &options), "options.struct_size is 0");
  REQUIRE(plumb_sgd_options_init(&options) == PLUMB_OK);
  options.reserved = 1;
  refused(plumb_sgd_step(queue, &dx, &x, nullptr, &options), "options.reserved is 1");
  REQUIRE(plumb_sgd_options_init(&options) == PLUMB_OK);
  options.learning_rate = -1;
  refused(plumb_sgd_step(queue, &dx, &x, nullptr, &options), "-1");
  plumb_labels labels{.data = nullptr, .count = 2, .stride = 1, .device = nullptr};
  refused(plumb_softmax_cross_entropy(queue, &x, &labels, nullptr, &dx, 1), "label");
}
