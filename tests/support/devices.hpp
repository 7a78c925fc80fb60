// The devices that tests run on, and what happens where one is missing.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/plumb.hpp"

namespace plumb_test {

/// Whether PLUMB_REQUIRE_BACKENDS (names with commas between) asks for this backend.
inline bool is_required(std::string_view backend) {
  const char* required = std::getenv("PLUMB_REQUIRE_BACKENDS");
  const std::string list = std::string(",") + (required ? required : "") + ",";
  return list.find(std::string(",").append(backend).append(",")) != std::string::npos;
}

/// The device; without it the test is a counted skip, or a failure where the backend is required.
inline plumb::Device device_or_skip(const std::string& spec) {
  const std::string backend = spec.substr(0, spec.find(':'));
  try {
    return plumb::Device::open(spec);
  } catch (const plumb::Error& e) {
    if (is_required(backend)) FAIL("PLUMB_REQUIRE_BACKENDS names " << backend << ": " << e.what());
    SKIP(e.what());
    throw;  // SKIP has thrown already, which the compiler does not see
  }
}

/// The names of all backends, for GENERATE; each is then opened with device_or_skip.
inline std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const plumb::BackendReport& report : plumb::backend_reports()) names.push_back(report.name);
  return names;
}

/// One device of each backend that works here. A required one that does not is a failure.
inline std::vector<plumb::Device> all_devices() {
  std::vector<plumb::Device> devices;
  for (const std::string& name : backend_names()) {
    try {
      devices.push_back(plumb::Device::open(name));
    } catch (const plumb::Error& e) {
      if (is_required(name)) FAIL("PLUMB_REQUIRE_BACKENDS names " << name << ": " << e.what());
    }
  }
  return devices;
}

}  // namespace plumb_test
