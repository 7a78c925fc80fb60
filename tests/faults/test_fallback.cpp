// What `auto` does about a device that cannot be had or that fails while it works, and what a
// device asked for by name says. The device is the fake one.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "fault.hpp"
#include "plumb/backend.hpp"
#include "support/c_handles.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// explain() shows what was passed over as its last entry.
void require_explained(const Device& device, const ConvProblem& problem, Reason reason) {
  REQUIRE(device.id() == host);
  REQUIRE(device.passed_over().size() == 1);
  REQUIRE(device.passed_over()[0].backend == "cuda");
  REQUIRE(device.passed_over()[0].reason == reason);
  REQUIRE_THAT(device.why(), ContainsSubstring("cuda: ") && ContainsSubstring("played by a fake") &&
                                 ContainsSubstring(std::string(to_string(reason))));
  const auto candidates = explain(device, problem);
  REQUIRE(candidates.size() == conv_algorithms(device).size() + 1);
  REQUIRE(candidates.back().algorithm == "cuda");
  REQUIRE(candidates.back().support.reason == reason);
  REQUIRE_FALSE(candidates.back().chosen);
  REQUIRE(ConvPlan(device, problem).explain().back().support.reason == reason);
}

}  // namespace

TEST_CASE("fallback: without a fault the fake device computes, and auto takes it") {
  HostCase test;
  const Device device = Device::open("auto");
  REQUIRE(device.id() == DeviceId{"cuda", 0});
  REQUIRE(device.why().empty());
  REQUIRE(device.passed_over().empty());
  REQUIRE(conv_host(device, test.tensors()).id() == device.id());
  REQUIRE(test.right());
}

TEST_CASE("fallback: a device that cannot be had") {
  const Reason reason = GENERATE(Reason::no_driver, Reason::driver_too_old, Reason::no_device,
                                 Reason::no_code_for_device, Reason::device_error);
  const Playing playing{std::string(to_string(reason))};
  HostCase test;
  const Device device = Device::open("auto");
  require_explained(device, test.problem(), reason);
  REQUIRE(conv_host(device, test.tensors()).id() == host);
  REQUIRE(test.right());
  const Error error = refusal([] { Device::open("cuda"); });
  REQUIRE(error.code() == ErrorCode::device_unavailable);
  REQUIRE(error.reason() == reason);
  REQUIRE_THAT(error.what(), ContainsSubstring("played by a fake"));
}

TEST_CASE("fallback: memory runs out while devices are looked for, and is there again") {
  {
    const Playing playing{"probe_memory"};
    const Error error = refusal([] { Device::open("cuda"); });
    REQUIRE(error.code() == ErrorCode::out_of_memory);
    REQUIRE(error.reason() == Reason::out_of_memory);
    const Device device = Device::open("auto");
    REQUIRE(device.id() == host);
    REQUIRE(device.passed_over().at(0).reason == Reason::out_of_memory);
    std::int32_t count = -1;
    REQUIRE(plumb_device_count("cuda", &count) == PLUMB_OUT_OF_MEMORY);
    REQUIRE(plumb_last_reason() == std::string("out_of_memory"));
    plumb_device* none = nullptr;
    REQUIRE(plumb_device_open("cuda", nullptr, &none) == PLUMB_OUT_OF_MEMORY);
  }
  REQUIRE(Device::open("auto").id() == DeviceId{"cuda", 0});
}

TEST_CASE("fallback: the device's memory runs out in the middle") {
  // Allocations of conv_host: w, then x and y for each stream, then pinned staging memory.
  const int before = GENERATE(0, 1, 2, 5, 9, 12);
  const Device device = Device::open("auto"), named = Device::open("cuda");
  HostCase test;
  const Playing playing{"out_of_memory:" + std::to_string(before)};
  require_explained(conv_host(device, test.tensors(), {}, {}, {.images_per_segment = 1}),
                    test.problem(), Reason::out_of_memory);
  REQUIRE(test.right());
  REQUIRE(device.passed_over().empty());  // what it says of itself does not change
  test.forget();
  const Error error =
      refusal([&] { conv_host(named, test.tensors(), {}, {}, {.images_per_segment = 1}); });
  REQUIRE(error.code() == ErrorCode::out_of_memory);
  REQUIRE(test.inputs_kept());
}

TEST_CASE("fallback: a sum is not done again where what y held may be gone") {
  const Device device = Device::open("auto");
  const ConvOptions adding{.accumulate = true};
  HostCase test;
  REQUIRE(conv_host(device, test.tensors(), {}, adding).id() == device.id());
  REQUIRE(test.added());
  test.forget();
  {
    const Playing playing{"out_of_memory:0"};  // before anything was written
    REQUIRE(conv_host(device, test.tensors(), {}, adding).id() == host);
    REQUIRE(test.added());
  }
  test.forget();
  const Playing playing{"launch"};
  const Error error = refusal([&] { conv_host(device, test.tensors(), {}, adding); });
  REQUIRE(error.code() == ErrorCode::device_failure);
  REQUIRE(test.inputs_kept());
}

TEST_CASE("fallback: from C, and the log says so") {
  std::string told;
  plumb_device_options options{};
  options.log_user = &told;
  options.log = [](void* user, const char* line) {
    *static_cast<std::string*>(user) += std::string(line) + "\n";
  };
  const CDevice device("auto", &options), named("cuda");
  HostCase test;
  const auto in_c = [](const auto& view) {
    plumb_tensor tensor;
    REQUIRE(plumb_tensor_init(&tensor, view.data(), nullptr, PLUMB_F32, view.rank(),
                              view.extents().begin(), nullptr) == PLUMB_OK);
    return tensor;
  };
  const ConvTensors tensors = test.tensors();
  const plumb_tensor x = in_c(tensors.x), w = in_c(tensors.w), y = in_c(tensors.y);
  const auto run = [&](const plumb_device* on) {
    return plumb_conv_host(on, &x, &w, nullptr, &y, nullptr, nullptr);
  };
  const Playing playing{"out_of_memory"};
  REQUIRE(run(device) == PLUMB_OK);
  REQUIRE(test.right());
  REQUIRE_THAT(told, ContainsSubstring("goes on with the CPU") &&
                         ContainsSubstring("cuda:0 failed: ") &&
                         ContainsSubstring("(out_of_memory)"));
  REQUIRE(run(named) == PLUMB_OUT_OF_MEMORY);
  REQUIRE(test.inputs_kept());
}

TEST_CASE("fallback: a launch that is refused") {
  const Device device = Device::open("auto"), named = Device::open("cuda");
  HostCase test;
  const Playing playing{"launch"};
  require_explained(conv_host(device, test.tensors()), test.problem(), Reason::device_error);
  REQUIRE(test.right());
  REQUIRE(refusal([&] { conv_host(named, test.tensors()); }).code() == ErrorCode::device_failure);
  REQUIRE(test.inputs_kept());
}

TEST_CASE("fallback: a plan whose workspace cannot be had leaves its tensors as they were") {
  const Device device = Device::open("auto");
  HostCase test;
  Queue queue(device);
  const Tensor x(device, DType::f32, test.problem().x_extents());
  const Tensor w(device, DType::f32, test.problem().w_extents());
  const Tensor y(device, DType::f32, test.problem().y_extents());
  copy(queue, test.tensors().x, x);
  copy(queue, test.tensors().w, w);
  const ConvPlan plan(device, test.problem());
  REQUIRE(plan.workspace_bytes() > 0);
  {
    const Playing playing{"workspace"};
    const Error error = refusal([&] { plan.execute(queue, {.x = x, .w = w, .y = y}); });
    REQUIRE(error.code() == ErrorCode::out_of_memory);
    REQUIRE(device.fall_back(error).id() == host);
  }
  // Memory is there again, and so are the tensors.
  plan.execute(queue, {.x = x, .w = w, .y = y});
  copy(queue, y, test.tensors().y);
  queue.synchronize();
  REQUIRE(test.right());
}

TEST_CASE("fallback: the caller's mistakes and what was asked for by name do not fall back") {
  const Device device = Device::open("auto"), named = Device::open("cuda");
  const Error failure(ErrorCode::device_failure, "it broke");
  REQUIRE(device.fall_back(failure).id() == host);
  REQUIRE_THAT(device.fall_back(failure).why(), ContainsSubstring("cuda:0 failed: it broke"));
  REQUIRE(refusal([&] { named.fall_back(failure); }).code() == ErrorCode::device_failure);
  const Device cpu = device.fall_back(failure);
  REQUIRE(refusal([&] { cpu.fall_back(failure); }).code() == ErrorCode::device_failure);
  for (const ErrorCode code : {ErrorCode::invalid_argument, ErrorCode::unsupported})
    REQUIRE(refusal([&] { device.fall_back(Error(code, "the caller's")); }).code() == code);
  // An algorithm that only the device has was forced: the CPU has none of that name.
  HostCase test;
  const Playing playing{"launch"};
  REQUIRE(refusal([&] {
            conv_host(device, test.tensors(), {}, {.algorithm = "cuda.conv.fake.fp32"});
          }).code() == ErrorCode::device_failure);
  REQUIRE(test.inputs_kept());
}

TEST_CASE("fallback: a y that overlaps an input is refused before a run can fail") {
  const Device device = Device::open("auto");
  std::vector<float> image(64, 1), filter(1, 2);
  const ConvTensors in_place{.x = ConstTensorView(image.data(), {1, 1, 8, 8}),
                             .w = ConstTensorView(filter.data(), {1, 1, 1, 1}),
                             .bias = {},
                             .y = TensorView(image.data(), {1, 1, 8, 8})};
  const Playing playing{"launch"};
  const Error refused = refusal([&] { conv_host(device, in_place); });
  REQUIRE(refused.code() == ErrorCode::invalid_argument);
  REQUIRE_THAT(refused.what(), ContainsSubstring("y overlaps x"));
  REQUIRE(image == std::vector<float>(64, 1));
}

TEST_CASE("fallback: the CPU fails as it does without a GPU") {
  const Playing playing{"no_driver"};
  const Device device = Device::open("auto");
  HostCase test;
  const Error error = refusal([&] {
    ConvOptions options{.algorithm = "cpu.conv.im2col.fp32", .workspace_limit_bytes = 0};
    conv_host(device, test.tensors(), {}, options);
  });
  REQUIRE(error.code() == ErrorCode::unsupported);
  REQUIRE_THAT(error.what(),
               ContainsSubstring("workspace_limit") && ContainsSubstring("no_driver"));
}

TEST_CASE("fallback: a kernel that breaks the device for good") {
  const Device device = Device::open("auto"), named = Device::open("cuda");
  HostCase test;
  {
    const Playing playing{"kernel"};
    require_explained(conv_host(device, test.tensors()), test.problem(), Reason::device_error);
  }
  REQUIRE(test.right());
  // Every later call of that device fails, and none of them loses anything.
  test.forget();
  REQUIRE(refusal([&] { conv_host(named, test.tensors()); }).code() == ErrorCode::device_failure);
  REQUIRE(test.inputs_kept());
  require_explained(conv_host(device, test.tensors()), test.problem(), Reason::device_error);
  REQUIRE(test.right());
  require_explained(Device::open("auto"), test.problem(), Reason::device_error);
  REQUIRE(refusal([] { Device::open("cuda"); }).reason() == Reason::device_error);
  const Playing playing{"restarted"};
  REQUIRE(Device::open("auto").id() == named.id());
}
