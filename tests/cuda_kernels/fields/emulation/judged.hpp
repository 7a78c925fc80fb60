// Values that emulated kernels are given, and how what they compute is judged.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "plumb/plumb.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::emulation {

/// Small integers, whose sums are exact; normal values; such as lie far apart; small integers with
/// an Inf and a NaN among them; values down to subnormal ones and up to where products are still
/// finite; small ones, among which some elements of x are the largest finite ones; and such beside
/// which the first elements of x and w have a product of nearly the largest.
enum class Data { integers, normal, far_apart, infinite, of_any_size, largest, large_products };

inline bool has_exact_sums(Data data) { return data == Data::integers || data == Data::infinite; }

inline double draw(Random& random, Data data) {
  if (has_exact_sums(data)) return random.integer(-2, 2);
  const double value = random.normal();
  if (data == Data::normal) return value;
  const bool small = data == Data::largest || data == Data::large_products;
  const int least = data == Data::of_any_size ? -140 : small ? -20 : -40;
  const int most = data == Data::of_any_size ? 55 : small ? -10 : 0;
  return std::ldexp(value, static_cast<int>(random.integer(least, most)));
}

/// Sets an element that is drawn, or, of all axes but the first two, the last: there it meets the
/// padding.
inline void put(HostTensor& tensor, Random& random, double value, bool at_end = false) {
  plumb::Dims index = tensor.extents();
  for (int i = 0; i < index.rank(); ++i)
    index[i] = i > 1 && at_end ? index[i] - 1
                               : static_cast<std::int64_t>(
                                     random.integer(0, static_cast<int>(tensor.extents()[i]) - 1));
  tensor.set(index, value);
}

/// The value as a tensor of the type holds it.
inline double stored_as(plumb::DType dtype, double value) {
  HostTensor one(dtype, {1});
  one.set({0}, value);
  return one.at({0});
}

struct Expected {
  double value = 0, bound = 0;
};

/// Returns which of the values is the first that differs from `expected(i)` by more than its bound;
/// nothing where none does. One NaN is as good as another.
template <class F>
std::string first_wrong(const std::vector<double>& values, const F& expected) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Expected wanted = expected(i);
    const bool both_nan = std::isnan(values[i]) && std::isnan(wanted.value);
    if (both_nan || values[i] == wanted.value || std::abs(values[i] - wanted.value) <= wanted.bound)
      continue;
    return "element " + std::to_string(i) + " of " + std::to_string(values.size()) + " is " +
           std::to_string(values[i]) + ", expected " + std::to_string(wanted.value) + " within " +
           std::to_string(wanted.bound);
  }
  return {};
}

}  // namespace plumb_test::emulation
