// The CPU as a device: its memory, its queues, its clock.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "plumb/plumb.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("cpu: memory that the machine does not have is refused") {
  const Device device = Device::open("cpu");
  CHECK(device.info().memory_bytes > 0);
  CHECK(device.free_bytes() > 0);
  CHECK(device.free_bytes() <= device.info().memory_bytes);
  const std::string wanted = std::to_string(std::int64_t{1} << 56);
  REQUIRE_THROWS_MATCHES(Tensor(device, DType::f32, {std::int64_t{1} << 54}), Error,
                         MessageMatches(ContainsSubstring(wanted) && ContainsSubstring("free")));
  for (const Memory memory : {Memory::device, Memory::pinned_host}) {
    const Tensor tensor(device, DType::bf16, {1}, {}, memory);
    CHECK(reinterpret_cast<std::uintptr_t>(tensor.data()) % 256 == 0);
  }
}

TEST_CASE("cpu: there is no queue to wrap") {
  const Device device = Device::open("cpu");
  CHECK(Queue::wrap(device, nullptr).native() == nullptr);
  int stream = 0;
  REQUIRE_THROWS_AS(Queue::wrap(device, &stream), Error);
}

TEST_CASE("cpu: events measure the time between them") {
  const Device device = Device::open("cpu");
  Queue queue(device);
  const Event from = queue.record();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const Event to = queue.record();
  queue.wait(to);
  CHECK(to.done());
  CHECK(seconds_between(from, to) >= 0.002);
  CHECK(seconds_between(from, to) < 10);
}
