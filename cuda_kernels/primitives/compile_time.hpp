// Kernels are compiled for certain numbers; a number met at run time selects one of them here.
#pragma once

#include <cstdint>
#include <string>

#include "plumb/error.hpp"

namespace plumb::cuda {

template <int... values>
struct CompileTime {
  static bool has(std::int64_t value) { return ((value == values) || ...); }

  /// Returns the first of the values that is not below `value`, or 0 where there is none. Where the
  /// values ascend, that is the next one up.
  static constexpr int at_least(std::int64_t value) {
    int found = 0;
    ((values >= value && (found = values, true)) || ...);
    return found;
  }

  /// Calls `f.operator()<value>()` for the value that equals `value`.
  template <class F>
  static void with(std::int64_t value, F&& f) {
    const bool found = ((value == values && (f.template operator()<values>(), true)) || ...);
    if (!found)
      throw Error(ErrorCode::unsupported,
                  "no kernel for " + std::to_string(value) + "; expected one of " + list());
  }

  /// Lists the values: "1, 3, 5".
  static std::string list() {
    std::string text;
    ((text += (text.empty() ? "" : ", ") + std::to_string(values)), ...);
    return text;
  }
};

}  // namespace plumb::cuda
