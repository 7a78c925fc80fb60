// Numbers that kernels are compiled for, met at run time.
#pragma once

#include <cstdint>
#include <string>

#include "plumb/error.hpp"

namespace plumb::cuda {

template <int... values>
struct CompileTime {
  static bool has(std::int64_t value) { return ((value == values) || ...); }

  /// The first of them that is not below `value`, or 0: where they ascend, the next one up.
  static constexpr int at_least(std::int64_t value) {
    int found = 0;
    ((values >= value && (found = values, true)) || ...);
    return found;
  }

  /// Calls `f.operator()<value>()` for the one of the values that `value` is.
  template <class F>
  static void with(std::int64_t value, F&& f) {
    const bool found = ((value == values && (f.template operator()<values>(), true)) || ...);
    if (!found)
      throw Error(ErrorCode::unsupported,
                  "no kernel for " + std::to_string(value) + "; expected one of " + list());
  }

  /// "1, 3, 5"
  static std::string list() {
    std::string text;
    ((text += (text.empty() ? "" : ", ") + std::to_string(values)), ...);
    return text;
  }
};

}  // namespace plumb::cuda
