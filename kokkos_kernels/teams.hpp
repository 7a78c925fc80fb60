// Leagues of teams: as many threads and lanes as the kernel wants where there are some, and
// Kokkos' own choice on the host.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kokkos_kernels/spaces.hpp"

namespace plumb::kokkos {

/// Teams for this many pieces of work, at least one; a team goes over more than one piece where
/// Kokkos could not count them.
inline int league_of(std::int64_t pieces) {
  return static_cast<int>(std::clamp<std::int64_t>(pieces, 1, 1 << 24));
}

/// `threads` and `lanes` are those that a device's teams shall have. A host's team is what Kokkos
/// makes of it, its lanes a loop.
template <class Space>
Kokkos::TeamPolicy<Space> team_policy(const Space& space, int league, int threads, int lanes) {
  if constexpr (runs_on_host<Space>)
    return Kokkos::TeamPolicy<Space>(space, league, Kokkos::AUTO);
  else
    return Kokkos::TeamPolicy<Space>(space, league, threads, lanes);
}

}  // namespace plumb::kokkos
