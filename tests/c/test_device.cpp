// Devices of the C interface: versions, what a device says, and the caller's allocator and log.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstddef>
#include <string>

#include "c_case.hpp"
#include "plumb/version.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::c;
using Catch::Matchers::ContainsSubstring;

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
