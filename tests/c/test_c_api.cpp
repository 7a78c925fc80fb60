// The C interface does what the C++ one does, on every device.
#include "plumb/plumb.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "plumb/version.hpp"
#include "support/c_handles.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<float> values(std::size_t count, float step) {
  std::vector<float> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = std::sin(step * static_cast<float>(i + 1));
  return made;
}

/// A host array in the device's memory; the bytes of `array` come back with download().
class OnDevice {
 public:
  OnDevice(const plumb_device* device, plumb_queue* queue, const std::vector<float>& array)
      : device_(device), queue_(queue), bytes_(array.size() * sizeof(float)) {
    REQUIRE(plumb_allocate(device, bytes_, PLUMB_DEVICE_MEMORY, &data_) == PLUMB_OK);
    REQUIRE(plumb_copy(queue, data_, array.data(), bytes_) == PLUMB_OK);
    REQUIRE(plumb_queue_synchronize(queue) == PLUMB_OK);
  }
  ~OnDevice() {
    plumb_queue_synchronize(queue_);
    plumb_deallocate(device_, data_, bytes_, PLUMB_DEVICE_MEMORY);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  operator void*() const { return data_; }  // NOLINT: as the pointer itself
  std::vector<float> download() const {
    std::vector<float> array(bytes_ / sizeof(float));
    REQUIRE(plumb_copy(queue_, array.data(), data_, bytes_) == PLUMB_OK);
    REQUIRE(plumb_queue_synchronize(queue_) == PLUMB_OK);
    return array;
  }

 private:
  const plumb_device* device_;
  plumb_queue* queue_;
  std::size_t bytes_;
  void* data_ = nullptr;
};

plumb_tensor tensor(const void* data, const plumb_device* device,
                    const std::vector<std::int64_t>& extents) {
  plumb_tensor made;
  REQUIRE(plumb_tensor_init(&made, data, device, PLUMB_F32,
                            static_cast<std::int32_t>(extents.size()), extents.data(),
                            nullptr) == PLUMB_OK);
  return made;
}

const ConvGeometry small_geometry{
    .stride = {2, 1}, .dilation = {1, 2}, .padding = {1, 2, 0, 3}, .groups = 2};

/// relu(conv(x, w) + bias) of small_problem(), in the same device through C++.
struct Reference {
  std::vector<float> x = values(2 * 6 * 8 * 9, 0.37f), w = values(4 * 3 * 3 * 3, 0.71f);
  std::vector<float> bias = values(4, 1.3f), y = std::vector<float>(2 * 4 * 4 * 10);
  explicit Reference(const std::string& spec) {
    conv_host(Device::open(spec),
              {.x = {x.data(), {2, 6, 8, 9}},
               .w = {w.data(), {4, 3, 3, 3}},
               .bias = {bias.data(), {4}},
               .y = {y.data(), {2, 4, 4, 10}}},
              small_geometry, {.activation = Activation::relu});
  }
};

plumb_conv_options with_bias_and_relu() {
  plumb_conv_options options;
  REQUIRE(plumb_conv_options_init(&options) == PLUMB_OK);
  options.bias = 1;
  options.activation = PLUMB_RELU;
  return options;
}

/// small_problem() with its reference, and a device and queue through C.
struct SmallConv {
  std::string spec;
  Reference reference;
  CDevice device;
  CQueue queue;
  plumb_conv_problem problem = small_problem();
  plumb_conv_options options = with_bias_and_relu();

  explicit SmallConv(const Device& same)
      : spec(to_string(same.id())), reference(spec), device(spec.c_str()), queue(device) {}
};

}  // namespace

TEST_CASE("c: versions") {
  REQUIRE(std::string(plumb_version()) == version);
  REQUIRE(PLUMB_VERSION_MAJOR == version_major);
  REQUIRE(PLUMB_VERSION_MINOR == version_minor);
  REQUIRE(PLUMB_VERSION_PATCH == version_patch);
}

TEST_CASE("c: a device tells what it is") {
  for (const Device& same : all_devices()) {
    const CDevice device(to_string(same.id()).c_str());
    plumb_device_info info;
    REQUIRE(plumb_device_get_info(device, &info) == PLUMB_OK);
    REQUIRE(info.id == to_string(same.id()));
    REQUIRE(info.name == same.info().name);
    REQUIRE(info.instruction_set == same.info().instruction_set);
    REQUIRE(std::string(info.why).empty());
    REQUIRE(info.memory_bytes == same.info().memory_bytes);
    std::size_t free_bytes = 0;
    REQUIRE(plumb_device_free_bytes(device, &free_bytes) == PLUMB_OK);
    REQUIRE(free_bytes > 0);
    std::int32_t count = 0;
    REQUIRE(plumb_device_count(std::string(same.id().backend).c_str(), &count) == PLUMB_OK);
    REQUIRE(count >= 1);
    plumb_device* copy = nullptr;
    REQUIRE(plumb_device_copy(device, &copy) == PLUMB_OK);
    plumb_device_info same_info;
    REQUIRE(plumb_device_get_info(copy, &same_info) == PLUMB_OK);
    REQUIRE(std::string(same_info.id) == info.id);
    plumb_device_close(copy);
  }
}

TEST_CASE("c: a plan, the caller's workspace, and each way of calling give C++'s bits") {
  for (const Device& same : all_devices()) {
    const SmallConv small(same);
    const auto& [spec, reference, device, queue, problem, options] = small;
    CAPTURE(spec);
    const CPlan plan(device, problem, &options);
    std::int64_t extents[4];
    REQUIRE(plumb_conv_output_extents(&problem, extents) == PLUMB_OK);
    REQUIRE(Extents(extents, 4) == Extents{2, 4, 4, 10});

    const OnDevice x(device, queue, reference.x), w(device, queue, reference.w);
    const OnDevice bias(device, queue, reference.bias);
    const std::vector<float> untouched(reference.y.size(), NAN);
    {
      const OnDevice y(device, queue, untouched);
      REQUIRE(plumb_plan_execute(plan, queue, x, w, bias, y, nullptr) == PLUMB_OK);
      REQUIRE(y.download() == reference.y);
    }
    {
      const OnDevice y(device, queue, untouched);
      std::size_t bytes = 0;
      REQUIRE(plumb_plan_workspace_bytes(plan, &bytes) == PLUMB_OK);
      void* workspace = nullptr;
      REQUIRE(plumb_allocate(device, bytes, PLUMB_DEVICE_MEMORY, &workspace) == PLUMB_OK);
      REQUIRE(plumb_plan_execute(plan, queue, x, w, bias, y, workspace) == PLUMB_OK);
      REQUIRE(y.download() == reference.y);
      REQUIRE(plumb_deallocate(device, workspace, bytes, PLUMB_DEVICE_MEMORY) == PLUMB_OK);
    }
    {
      const OnDevice y(device, queue, untouched);
      const plumb_tensor tx = tensor(x, device, {2, 6, 8, 9}), tw = tensor(w, device, {4, 3, 3, 3});
      const plumb_tensor tb = tensor(bias, device, {4}), ty = tensor(y, device, {2, 4, 4, 10});
      REQUIRE(plumb_conv(queue, &tx, &tw, &tb, &ty, &problem.geometry, &options) == PLUMB_OK);
      REQUIRE(y.download() == reference.y);
    }
    std::vector<float> y = untouched;
    const plumb_tensor tx = tensor(reference.x.data(), nullptr, {2, 6, 8, 9});
    const plumb_tensor tw = tensor(reference.w.data(), nullptr, {4, 3, 3, 3});
    const plumb_tensor tb = tensor(reference.bias.data(), nullptr, {4});
    const plumb_tensor ty = tensor(y.data(), nullptr, {2, 4, 4, 10});
    REQUIRE(plumb_conv_host(device, &tx, &tw, &tb, &ty, &problem.geometry, &options) == PLUMB_OK);
    REQUIRE(y == reference.y);
  }
}

TEST_CASE("c: filters packed once give C++'s bits, and are another plan's too") {
  for (const Device& same : all_devices()) {
    const SmallConv small(same);
    const auto& [spec, reference, device, queue, problem, options] = small;
    CAPTURE(spec);
    plumb_packed_filters* filters = nullptr;
    const OnDevice x(device, queue, reference.x), bias(device, queue, reference.bias);
    {
      const CPlan packer(device, problem, &options);
      const OnDevice w(device, queue, reference.w);
      REQUIRE(plumb_plan_pack(packer, queue, w, &filters) == PLUMB_OK);
    }  // w is freed
    const CPlan plan(device, problem, &options);
    std::size_t bytes = 0, with_w = 0;
    REQUIRE(plumb_plan_packed_workspace_bytes(plan, &bytes) == PLUMB_OK);
    REQUIRE(plumb_plan_workspace_bytes(plan, &with_w) == PLUMB_OK);
    REQUIRE(bytes <= with_w);
    void* workspace = nullptr;
    REQUIRE(plumb_allocate(device, bytes, PLUMB_DEVICE_MEMORY, &workspace) == PLUMB_OK);
    for (void* memory : {static_cast<void*>(nullptr), workspace}) {
      const OnDevice y(device, queue, std::vector<float>(reference.y.size(), NAN));
      REQUIRE(plumb_plan_execute_packed(plan, queue, x, filters, bias, y, memory) == PLUMB_OK);
      REQUIRE(y.download() == reference.y);
    }
    REQUIRE(plumb_deallocate(device, workspace, bytes, PLUMB_DEVICE_MEMORY) == PLUMB_OK);

    plumb_conv_problem higher = problem;
    higher.h = 9;
    const CPlan other(device, higher, &options);
    REQUIRE(plumb_plan_execute_packed(other, queue, x, filters, bias, x, nullptr) ==
            PLUMB_INVALID_ARGUMENT);
    CHECK_THAT(plumb_last_message(), ContainsSubstring("plumb_plan_execute_packed") &&
                                         ContainsSubstring("packed for") &&
                                         ContainsSubstring("ih9"));
    plumb_packed_filters_destroy(filters);
  }
}

TEST_CASE("c: strides, a native queue, and handles closed before what was made of them") {
  for (const Device& same : all_devices()) {
    plumb_device* device = nullptr;
    REQUIRE(plumb_device_open(to_string(same.id()).c_str(), nullptr, &device) == PLUMB_OK);
    Queue native(same);
    plumb_queue* queue = nullptr;
    REQUIRE(plumb_queue_wrap(device, native.native(), &queue) == PLUMB_OK);
    void* stream = nullptr;
    REQUIRE(plumb_queue_native(queue, &stream) == PLUMB_OK);
    if (same.id().backend == "kokkos")
      REQUIRE(stream);  // to an instance, of which every queue has a copy
    else
      REQUIRE(stream == native.native());

    // A 1x1 convolution by 2 of every other column, written from the last column to the first.
    plumb_conv_problem problem;
    REQUIRE(plumb_conv_problem_init(&problem) == PLUMB_OK);
    problem.w = 4;
    const std::int64_t x_strides[] = {8, 8, 8, 2};
    problem.x_strides = x_strides;
    plumb_plan* plan = nullptr;
    REQUIRE(plumb_plan_create(device, &problem, nullptr, &plan) == PLUMB_OK);
    const char* algorithm = nullptr;
    REQUIRE(plumb_plan_algorithm(plan, &algorithm) == PLUMB_OK);
    REQUIRE_THAT(algorithm, ContainsSubstring(".conv."));
    {
      const CDevice other(to_string(same.id()).c_str());
      const OnDevice x(other, queue, {1, 0, 2, 0, 3, 0, 4, 0}), w(other, queue, {2});
      const OnDevice y(other, queue, std::vector<float>(4, NAN));
      plumb_device_close(device);  // the plan and the queue keep what they need
      plumb_event *before = nullptr, *after = nullptr;
      REQUIRE(plumb_queue_record(queue, &before) == PLUMB_OK);
      REQUIRE(plumb_plan_execute(plan, queue, x, w, nullptr, y, nullptr) == PLUMB_OK);
      REQUIRE(plumb_queue_record(queue, &after) == PLUMB_OK);
      REQUIRE(y.download() == std::vector<float>{2, 4, 6, 8});
      REQUIRE(plumb_queue_wait(queue, after) == PLUMB_OK);
      REQUIRE(plumb_event_synchronize(after) == PLUMB_OK);
      std::int32_t done = 0;
      REQUIRE(plumb_event_done(after, &done) == PLUMB_OK);
      REQUIRE(done == 1);
      double seconds = -1;
      REQUIRE(plumb_event_seconds(before, after, &seconds) == PLUMB_OK);
      REQUIRE(seconds >= 0);
      plumb_event_destroy(before);
      plumb_event_destroy(after);
    }
    plumb_queue_destroy(queue);
    plumb_plan_destroy(plan);
  }
}

TEST_CASE("c: explain shows what C++ shows") {
  const CDevice device;
  plumb_conv_options options;
  REQUIRE(plumb_conv_options_init(&options) == PLUMB_OK);
  options.math = PLUMB_FP64;
  options.deterministic = 1;
  options.workspace_limit_bytes = 1;
  const plumb_conv_problem problem = small_problem();
  const std::vector<ConvCandidate> expected = explain(
      Device::open("cpu"), {small_geometry, Direction::forward, DType::f32, 2, 6, 8, 9, 4, 3, 3},
      {.math = Math::fp64, .workspace_limit_bytes = 1, .deterministic = true});
  plumb_explanation* explanation = nullptr;
  REQUIRE(plumb_explain(device, &problem, &options, &explanation) == PLUMB_OK);
  std::size_t size = 0;
  REQUIRE(plumb_explanation_size(explanation, &size) == PLUMB_OK);
  REQUIRE(size == expected.size());
  bool refused = false;
  for (std::size_t i = 0; i < size; ++i) {
    plumb_candidate candidate;
    REQUIRE(plumb_explanation_entry(explanation, i, &candidate) == PLUMB_OK);
    REQUIRE(candidate.algorithm == expected[i].algorithm);
    REQUIRE(candidate.reason == to_string(expected[i].support.reason));
    REQUIRE(candidate.sentence == expected[i].support.sentence);
    REQUIRE(candidate.remedy == (expected[i].support ? "" : remedy(expected[i].support.reason)));
    REQUIRE(candidate.measured_seconds == expected[i].measured_seconds.value_or(-1));
    REQUIRE(candidate.deterministic == expected[i].deterministic);
    REQUIRE(candidate.estimate_seconds == expected[i].estimate_seconds);
    REQUIRE(candidate.workspace_bytes == expected[i].workspace_bytes);
    REQUIRE(candidate.error_class == static_cast<plumb_math>(expected[i].error_class));
    REQUIRE(candidate.chosen == expected[i].chosen);
    refused = refused || std::string(candidate.reason) == "workspace_limit";
  }
  REQUIRE(refused);
  plumb_candidate none;
  REQUIRE(plumb_explanation_entry(explanation, size, &none) == PLUMB_INVALID_ARGUMENT);
  plumb_explanation_destroy(explanation);

  const CPlan plan(device, problem);
  REQUIRE(plumb_plan_explain(plan, &explanation) == PLUMB_OK);
  const char* algorithm = nullptr;
  REQUIRE(plumb_plan_algorithm(plan, &algorithm) == PLUMB_OK);
  int chosen = 0;
  for (std::size_t i = 0; i < size; ++i) {
    plumb_candidate candidate;
    REQUIRE(plumb_explanation_entry(explanation, i, &candidate) == PLUMB_OK);
    if (!candidate.chosen) continue;
    ++chosen;
    REQUIRE(std::string(candidate.algorithm) == algorithm);
  }
  REQUIRE(chosen == 1);
  plumb_explanation_destroy(explanation);
}

TEST_CASE("c: an algorithm is held against the oracle") {
  const CDevice device;
  const plumb_conv_problem problem = small_problem();
  for (const char* algorithm : {static_cast<const char*>(nullptr), "cpu.conv.im2col.fp32"}) {
    plumb_validation validation;
    REQUIRE(plumb_validate(device, &problem, algorithm, &validation) == PLUMB_OK);
    REQUIRE(validation.passed == 1);
    REQUIRE(validation.max_error_over_bound > 0);
    REQUIRE(validation.max_error_over_bound <= 1);
    REQUIRE(std::string(validation.sentence).empty());
  }
  plumb_validation validation;
  REQUIRE(plumb_validate(device, &problem, "cpu.conv.wishful", &validation) ==
          PLUMB_INVALID_ARGUMENT);
}

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

TEST_CASE("c: a convolution that pools") {
  plumb_conv_problem problem = small_problem();
  problem.geometry.pool = PLUMB_MAX_POOL_2X2;
  std::int64_t extents[4];
  REQUIRE(plumb_conv_output_extents(&problem, extents) == PLUMB_OK);
  REQUIRE(Extents(extents, 4) == Extents{2, 4, 2, 5});
  const Reference unpooled("cpu");
  std::vector<float> y(2 * 4 * 2 * 5);
  const CDevice device;
  const CQueue queue(device);
  const plumb_conv_options options = with_bias_and_relu();
  const CPlan plan(device, problem, &options);
  REQUIRE(plumb_plan_execute(plan, queue, unpooled.x.data(), unpooled.w.data(),
                             unpooled.bias.data(), y.data(), nullptr) == PLUMB_OK);
  for (int i = 0; i < 2 * 4 * 2 * 5; ++i) {  // y[n,k,p,q] from rows 2p, 2p+1 of 10 columns
    const float* corner = unpooled.y.data() + i / 5 * 20 + i % 5 * 2;
    REQUIRE(y[i] == std::max({corner[0], corner[1], corner[10], corner[11]}));
  }
  problem.geometry.pool = 2;
  REQUIRE(plumb_conv_output_extents(&problem, extents) == PLUMB_INVALID_ARGUMENT);
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

TEST_CASE("c: the caller's allocator and log") {
  struct Caller {
    int allocations = 0, deallocations = 0;
    std::string heard;
  } caller;
  alignas(256) static std::byte memory[4096];
  const plumb_device_options options{
      .allocate = [](void* user, std::size_t bytes, plumb_memory, void*) -> void* {
        ++static_cast<Caller*>(user)->allocations;
        return bytes <= sizeof memory ? memory : nullptr;
      },
      .deallocate =
          [](void* user, void* data, std::size_t, plumb_memory, void*) {
            if (data == memory) ++static_cast<Caller*>(user)->deallocations;
          },
      .allocator_user = &caller,
      .log = [](void* user, const char* line) { static_cast<Caller*>(user)->heard += line; },
      .log_user = &caller};
  const CDevice device("cpu", &options);
  void* data = nullptr;
  REQUIRE(plumb_allocate(device, 8192, PLUMB_DEVICE_MEMORY, &data) == PLUMB_OUT_OF_MEMORY);
  REQUIRE(plumb_allocate(device, 4096, PLUMB_DEVICE_MEMORY, &data) == PLUMB_OK);
  REQUIRE(data == memory);
  REQUIRE(plumb_deallocate(device, data, 4096, PLUMB_DEVICE_MEMORY) == PLUMB_OK);
  REQUIRE(caller.allocations == 2);
  REQUIRE(caller.deallocations == 1);
  REQUIRE(caller.heard.empty());
  const CPlan plan(device, small_problem());
  REQUIRE_THAT(caller.heard, ContainsSubstring("cpu.conv."));

  const plumb_device_options half{.allocate = options.allocate};
  plumb_device* none = nullptr;
  REQUIRE(plumb_device_open("cpu", &half, &none) == PLUMB_INVALID_ARGUMENT);
}
