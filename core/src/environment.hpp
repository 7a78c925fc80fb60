// The environment variables that steer and show from outside.
#pragma once

#include <cstdlib>
#include <string>

namespace plumb {

/// The variable's value, or empty where it is not set.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// Set, and neither empty nor "0".
inline bool environment_flag(const char* name) {
  const std::string value = environment(name);
  return !value.empty() && value != "0";
}

}  // namespace plumb
