// Kernels are compiled for lists of forms; the one that a plan has is looked for here.
#pragma once

#include <cstddef>
#include <utility>

namespace plumb::cuda::depthwise {

/// Calls `launch.operator()<i>()` for i below `count` until one returns true, and says whether one
/// did.
template <std::size_t count, class F>
bool launch_one_of(const F& launch) {
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return (launch.template operator()<i>() || ...);
  }
  (std::make_index_sequence<count>());
}

}  // namespace plumb::cuda::depthwise
