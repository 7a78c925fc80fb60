// What errors of convolutions begin with.
#pragma once

#include <string>

#include "sizes.hpp"

namespace plumb {

inline constexpr const char* convolution_operation = "convolution";

/// Throws Error (invalid_argument).
[[noreturn]] inline void refuse_convolution(const std::string& message) {
  refuse_argument(convolution_operation, message);
}

}  // namespace plumb
