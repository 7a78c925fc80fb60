// Every backend that Plumb knows of, in the order in which `auto` tries them: one line each.
#include <array>

#include "plumb/backend.hpp"

namespace plumb {

Backend& cpu_backend();
#ifdef PLUMB_LINK_CUDA  // a static build lists what a shared build loads
Backend& cuda_backend();
constexpr auto cuda = &cuda_backend;
#else
constexpr Backend& (*cuda)() = nullptr;
#endif
#ifdef PLUMB_LINK_KOKKOS
Backend& kokkos_backend();
constexpr auto kokkos = &kokkos_backend;
#else
constexpr Backend& (*kokkos)() = nullptr;
#endif

std::span<const BackendSource> backend_list() {
  static constexpr std::array list{
      BackendSource{.name = "cuda",
                    .linked = cuda,
                    .provider = "cudnn",
                    .where_built = "a build where CMake finds nvcc (PLUMB_CUDA=ON)"},
      // Opening it may initialise Kokkos, which is not to happen unasked.
      BackendSource{.name = "kokkos",
                    .linked = kokkos,
                    .by_name_only = true,
                    .has_aliases = true,
                    .where_built = "a build where CMake finds Kokkos (PLUMB_KOKKOS=ON, Kokkos_ROOT "
                                   "is its folder; docs/kokkos.md)"},
      BackendSource{.name = "cpu", .linked = &cpu_backend, .provider = "onednn"},
  };
  return list;
}

}  // namespace plumb
