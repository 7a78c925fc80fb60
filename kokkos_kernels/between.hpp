// Where bilinear interpolation samples, along one direction.
#pragma once

#include <cstdint>

#include "kokkos_kernels/scalar.hpp"

namespace plumb::kokkos {

/// The two pixels that an output lies between along one direction, and how far it is to `high`.
/// Every operation rounds on its own, as on other devices, so that all of them sample alike.
template <class Value>
struct Between {
  std::int64_t low, high;
  Value fraction;
};
template <class Value>
KOKKOS_INLINE_FUNCTION Between<Value> between(std::int64_t output, Value scale,
                                              std::int64_t extent) {
  const Value centre = static_cast<Value>(output) + Value(0.5);
  Value coordinate = rounded_product(centre, scale) - Value(0.5);
  const Value last = static_cast<Value>(extent - 1);
  coordinate = coordinate < 0 ? 0 : coordinate > last ? last : coordinate;
  std::int64_t low = static_cast<std::int64_t>(coordinate);  // not negative: towards zero is down
  // Extents beyond what Value counts exactly: `last` may have been rounded up.
  if (low > extent - 1) low = extent - 1;
  return {low, low < extent - 1 ? low + 1 : low, coordinate - static_cast<Value>(low)};
}

}  // namespace plumb::kokkos
