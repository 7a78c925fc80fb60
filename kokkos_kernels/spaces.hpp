// The execution spaces that Kokkos was built with: each is a device of the backend.
#pragma once

#include <Kokkos_Core.hpp>
#include <type_traits>

namespace plumb::kokkos {

template <class... Space>
struct SpaceList {
  static constexpr int size = sizeof...(Space);
  /// Calls `f` with the space of this number; without one of it, does nothing.
  template <class F>
  static void visit(int number, F&& f) {
    int here = 0;
    (static_cast<void>(here++ == number && (f.template operator()<Space>(), true)), ...);
  }
};

template <class List, class... Space>
struct Distinct {
  using type = List;
};
template <class... Kept, class First, class... Rest>
struct Distinct<SpaceList<Kept...>, First, Rest...>
    : Distinct<std::conditional_t<(std::is_same_v<First, Kept> || ...), SpaceList<Kept...>,
                                  SpaceList<Kept..., First>>,
               Rest...> {};

/// The default space first, so that it is what a device named without an index means.
#ifdef KOKKOS_ENABLE_SERIAL
using Spaces = Distinct<SpaceList<>, Kokkos::DefaultExecutionSpace,
                        Kokkos::DefaultHostExecutionSpace, Kokkos::Serial>::type;
#else
using Spaces =
    Distinct<SpaceList<>, Kokkos::DefaultExecutionSpace, Kokkos::DefaultHostExecutionSpace>::type;
#endif

/// Whether the host runs the space itself: work has then been done when it has been put on it.
template <class Space>
inline constexpr bool runs_on_host =
    Kokkos::SpaceAccessibility<Space, Kokkos::HostSpace>::accessible;

/// An instance of one of `Spaces`, where types do not reach.
struct Instance {
  int space;             ///< its number in `Spaces`
  const void* instance;  ///< of that type
};
/// Calls `f(space)` with the instance as what it is.
template <class F>
void with_instance(const Instance& any, F&& f) {
  Spaces::visit(any.space, [&]<class Space>() { f(*static_cast<const Space*>(any.instance)); });
}

}  // namespace plumb::kokkos
