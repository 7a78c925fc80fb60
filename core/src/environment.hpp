// The environment variables that steer and show from outside.
#pragma once

#include <cstdlib>
#include <string>

namespace plumb {

/// The variable's value, or empty where it is not set, and in a process that runs with more rights
/// than its user has (setuid, file capabilities): who starts such a program may not say which code
/// it loads or which files it writes.
inline std::string environment(const char* name) {
  const char* value = secure_getenv(name);
  return value ? value : "";
}

/// Set, and neither empty nor "0".
inline bool environment_flag(const char* name) {
  const std::string value = environment(name);
  return !value.empty() && value != "0";
}

}  // namespace plumb
