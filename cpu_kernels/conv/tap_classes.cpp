// Outputs of an axis are cut into classes here.
#include "cpu_kernels/conv/tap_classes.hpp"

#include <numeric>

namespace plumb {

using std::int64_t;

TapAxis tap_axis(int64_t taps, int64_t stride, int64_t dilation, int64_t before, int64_t extent,
                 bool skips) {
  return {.taps = taps,
          .stride = stride,
          .dilation = dilation,
          .before = before,
          .extent = extent,
          .every = taps == 1 ? stride : std::gcd(stride, dilation),
          .skips = skips};
}

TapRange TapAxis::inside(int64_t at) const {
  const int64_t from = first(at);
  const auto tap_at = [&](int64_t index) {  // the first tap at `index` of x or behind it
    return std::clamp<int64_t>(index > from ? ceil_div(index - from, dilation) : 0, 0, taps);
  };
  const int64_t begin = tap_at(0);
  return {begin, std::max(begin, tap_at(extent))};
}

TapRange TapAxis::slab_places(int64_t at, int64_t outputs) const {
  const int64_t all = count(outputs), from = first(at);
  if (!skips) return {0, all};
  const auto place_at = [&](int64_t index) {  // the first place at `index` of x or behind it
    return std::clamp<int64_t>(index > from ? ceil_div(index - from, every) : 0, 0, all);
  };
  const int64_t begin = place_at(0);
  return {begin, std::max(begin, place_at(extent))};
}

std::vector<TapClass> tap_classes(const TapAxis& axis, int64_t outputs) {
  const TapRange all{0, axis.taps};
  std::vector<TapClass> classes;
  if (!axis.skips) return {{0, outputs, all}};
  for (int64_t at = 0; at < outputs && classes.size() <= max_tap_classes;) {
    TapClass here{at, at + 1, axis.inside(at)};
    if (here.taps == all) {
      const int64_t last = axis.extent - 1 - (axis.taps - 1) * axis.dilation + axis.before;
      here.end = std::min(outputs, last / axis.stride + 1);
    } else {
      while (here.end < outputs && axis.inside(here.end) == here.taps) ++here.end;
    }
    classes.push_back(here);
    at = here.end;
  }
  return classes;
}

}  // namespace plumb
