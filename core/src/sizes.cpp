#include "sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "overlap.hpp"
#include "plumb/error.hpp"

namespace plumb {

void refuse_argument(std::string_view operation, std::string_view message) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", operation, message));
}

void check_size(std::string_view operation, std::string_view name, std::int64_t value,
                std::int64_t minimum) {
  if (value < minimum)
    refuse_argument(operation, fmt::format("{} is {}; expected at least {}", name, value, minimum));
  constexpr std::int64_t limit = std::int64_t{1} << 48;
  if (value > limit)
    refuse_argument(operation, fmt::format("{} is {}; at most 2^48 is possible", name, value));
}

void check_window_fits(std::string_view operation, std::string_view window, std::int64_t taps,
                       std::int64_t dilation, std::int64_t padded, std::string_view side) {
  // dilation * (taps - 1) + 1 > padded, without the product
  if (taps - 1 > (padded - 1) / dilation)
    refuse_argument(operation,
                    fmt::format("a {} of {} {} at dilation {} does not fit into {} padded {}",
                                window, taps, side, dilation, padded, side));
}

void check_layout(std::string_view operation, std::string_view tensor, const Extents& extents,
                  const Strides& strides) {
  element_count(extents);
  if (strides.rank() != extents.rank())
    refuse_argument(operation, fmt::format("{} has {} strides; expected {}, for extents {}", tensor,
                                           strides.rank(), extents.rank(), to_string(extents)));
  constexpr std::int64_t limit = std::int64_t{1} << 58;
  std::int64_t reach = 0;
  for (int i = 0; i < extents.rank(); ++i) {
    const std::int64_t steps = std::max<std::int64_t>(extents[i] - 1, 0), stride = strides[i];
    const bool beyond = stride > limit || stride < -limit ||
                        (steps > 0 && std::abs(stride) > (limit - reach) / steps);
    if (beyond)
      refuse_argument(
          operation, fmt::format("{} has stride {} over extent {}; offsets would pass 2^58", tensor,
                                 stride, extents[i]));
    reach += std::abs(stride) * steps;
  }
}

void check_output_layout(std::string_view operation, std::string_view tensor,
                         const Extents& extents, const Strides& strides) {
  check_layout(operation, tensor, extents, strides);
  if (overlaps_itself(extents, strides))
    refuse_argument(operation, fmt::format("{} of {} with strides {} overlaps itself", tensor,
                                           to_string(extents), to_string(strides)));
}

}  // namespace plumb
