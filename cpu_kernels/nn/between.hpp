// Where bilinear interpolation samples, along one direction.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plumb {
namespace {

/// The two inputs that an output lies between, and how far it is from the first to the second.
template <class T>
struct Between {
  std::int64_t low, high;
  T fraction;
};

template <class T>
Between<T> between(std::int64_t output, std::int64_t inputs, std::int64_t outputs) {
  const T scale = static_cast<T>(inputs) / static_cast<T>(outputs);
  const T centre = (static_cast<T>(output) + T(0.5)) * scale - T(0.5);
  const T position = std::clamp(centre, T(0), static_cast<T>(inputs - 1));
  const std::int64_t low = std::min(static_cast<std::int64_t>(position), inputs - 1);
  return {low, std::min(low + 1, inputs - 1), position - static_cast<T>(low)};
}

}  // namespace
}  // namespace plumb
