// Devices by name: what opens, what does not, and why.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>

#include "support/devices.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;

namespace {

Error refused(const std::string& spec) {
  try {
    Device::open(spec);
  } catch (const Error& e) {
    return e;
  }
  FAIL("device '" << spec << "' was opened");
  throw;
}

}  // namespace

TEST_CASE("the CPU is always there") {
  const Device cpu = Device::open("cpu");
  REQUIRE(cpu.id() == host);
  REQUIRE(cpu.info().units >= 1);
  REQUIRE(cpu.info().memory_bytes > 0);
  REQUIRE(cpu.free_bytes() > 0);
  REQUIRE_FALSE(cpu.info().name.empty());
  REQUIRE_FALSE(cpu.info().instruction_set.empty());
}

TEST_CASE("a wrong name is wrong usage, a missing device is not") {
  const Error unknown = refused("tpu");
  REQUIRE(unknown.code() == ErrorCode::invalid_argument);
  REQUIRE(unknown.reason() == Reason::unknown_backend);
  REQUIRE_THAT(unknown.what(), ContainsSubstring("tpu") && ContainsSubstring("cpu"));
  REQUIRE(refused("cpu:x").code() == ErrorCode::invalid_argument);
  REQUIRE(refused("cpu:").code() == ErrorCode::invalid_argument);
  REQUIRE(refused("cpu:-1").code() == ErrorCode::invalid_argument);
  REQUIRE(refused("cpu:7").code() == ErrorCode::device_unavailable);
  REQUIRE(refused("cpu:7").reason() == Reason::no_device);
  REQUIRE(refused("cpu:99999999999999999999").code() == ErrorCode::invalid_argument);
}

TEST_CASE("auto finds a device, and says which it passed over") {
  const Device device = Device::open("auto");
  if (device.id() == host)
    REQUIRE_FALSE(device.why().empty());
  else
    REQUIRE(device.why().empty());
}

TEST_CASE("PLUMB_DEVICE is what an empty spec means") {
  setenv("PLUMB_DEVICE", "cpu", 1);
  const Device device = Device::open();
  REQUIRE(device.id() == host);
  REQUIRE(device.why().empty());
  setenv("PLUMB_DEVICE", "abacus", 1);
  REQUIRE(refused("").reason() == Reason::unknown_backend);
  unsetenv("PLUMB_DEVICE");
}

TEST_CASE("every backend reports devices or a reason") {
  for (const BackendReport& report : backend_reports()) {
    CAPTURE(report.name, report.sentence);
    REQUIRE(report.devices.empty() == (report.reason != Reason::none));
    REQUIRE(report.sentence.empty() == (report.reason == Reason::none));
  }
}

TEST_CASE("events measure time in the queue's order") {
  for (const Device& device : plumb_test::all_devices()) {
    Queue queue(device);
    const Event first = queue.record();
    const Tensor x(device, DType::f32, {1 << 20});
    const Tensor y(device, DType::f32, {1 << 20});
    relu(queue, x, y);
    const Event second = queue.record();
    Queue other(device);
    other.wait(second);
    other.synchronize();
    REQUIRE(second.done());
    REQUIRE(seconds_between(first, second) > 0);
  }
}
