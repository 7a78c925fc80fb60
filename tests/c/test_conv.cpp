// The convolution of the C interface does what the C++ one does, on every device.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "c_case.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::c;
using Catch::Matchers::ContainsSubstring;

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
  ConvProblem same{small_geometry};
  same.n = 2, same.c = 6, same.h = 8, same.w = 9;
  same.k = 4, same.r = 3, same.s = 3;
  const std::vector<ConvCandidate> expected =
      explain(Device::open("cpu"), same,
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
