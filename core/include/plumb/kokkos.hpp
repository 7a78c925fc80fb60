// Kokkos' views serve as tensors and its execution spaces as queues, without a copy. The header is
// for programs that are compiled with Kokkos themselves, 3.4 or newer; plumb.hpp does not include
// it.
//
// Plumb neither initialises nor finalises the Kokkos of such a program: that is done before the
// first call here, and after the last use of what it returns.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "plumb/device.hpp"
#include "plumb/error.hpp"
#include "plumb/tensor.hpp"

namespace plumb {
namespace kokkos_detail {

/// Kokkos has types of 16 bits of its own, which are float where it has no better.
template <class T>
constexpr DType dtype() {
  using Element = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Element, Kokkos::Experimental::half_t> &&
                sizeof(Kokkos::Experimental::half_t) == 2)
    return DType::f16;
#ifdef KOKKOS_BHALF_T_IS_FLOAT
  else if constexpr (std::is_same_v<Element, Kokkos::Experimental::bhalf_t> &&
                     sizeof(Kokkos::Experimental::bhalf_t) == 2)
    return DType::bf16;
#endif
  else
    return dtype_of<Element>;
}

template <class MemorySpace>
inline constexpr bool host_reads =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, MemorySpace>::accessible;

#ifdef KOKKOS_ENABLE_CUDA
template <class MemorySpace>
inline constexpr bool cuda_reads =
    Kokkos::SpaceAccessibility<Kokkos::Cuda, MemorySpace>::accessible;
template <class Space>
inline constexpr bool is_cuda = std::is_same_v<Space, Kokkos::Cuda>;

/// Returns the device that this memory is on, or the one that Kokkos uses where all can read it.
inline int cuda_device_of(const void* memory) {
  cudaPointerAttributes attributes{};
  if (memory && cudaPointerGetAttributes(&attributes, memory) != cudaSuccess)
    cudaGetLastError();  // the error is this call's own, which the program need not see
  else if (memory && attributes.type == cudaMemoryTypeDevice)
    return attributes.device;
  return Kokkos::Cuda().cuda_device();
}
#else
template <class MemorySpace>
inline constexpr bool cuda_reads = false;
template <class Space>
inline constexpr bool is_cuda = false;
#endif

/// Says whether a device computes in the host's memory.
inline bool is_of_the_host(const Device& device) { return device.info().compute_major == 0; }

template <class View>
auto view_on(const View& view, DeviceId device) {
  using Element = typename View::value_type;
  using Void = std::conditional_t<std::is_const_v<Element>, const void, void>;
  constexpr auto rank = static_cast<std::size_t>(View::rank);
  static_assert(rank >= 1 && rank <= Dims::max_rank, "tensors have 1 to 6 dimensions");
  std::int64_t extents[Dims::max_rank] = {}, strides[rank + 1] = {};
  view.stride(strides);
  for (std::size_t i = 0; i < rank; ++i) extents[i] = static_cast<std::int64_t>(view.extent(i));
  return BasicTensorView<Void>(view.data(), dtype<Element>(), Extents(extents, rank), device,
                               Strides(strides, rank));
}

}  // namespace kokkos_detail

/// Returns the Kokkos::View's memory as a tensor, its indices in their order whatever its layout:
/// host memory ("cpu", also pinned memory), or device memory ("cuda:N", also that of CudaUVMSpace).
/// const elements make a ConstTensorView. The tensor borrows: the View has to stay as long as the
/// tensor is used.
template <class Data, class... Properties>
auto tensor_view(const Kokkos::View<Data, Properties...>& view) {
  using MemorySpace = typename Kokkos::View<Data, Properties...>::memory_space;
  if constexpr (kokkos_detail::is_cuda<typename MemorySpace::execution_space>) {
#ifdef KOKKOS_ENABLE_CUDA
    return kokkos_detail::view_on(view, {"cuda", kokkos_detail::cuda_device_of(view.data())});
#endif
  } else {
    static_assert(kokkos_detail::host_reads<MemorySpace>, "memory of the host or of a CUDA device");
    return kokkos_detail::view_on(view, host);
  }
}

/// Returns the View's memory as a tensor for the queues of `device`, which may be one of Kokkos'
/// own ("kokkos:openmp") and has to outlive the tensor. Throws Error (invalid_argument) where the
/// device does not work in that memory.
template <class Data, class... Properties>
auto tensor_view(const Kokkos::View<Data, Properties...>& view, const Device& device) {
  using MemorySpace = typename Kokkos::View<Data, Properties...>::memory_space;
  bool reads = kokkos_detail::is_of_the_host(device) ? kokkos_detail::host_reads<MemorySpace>
                                                     : kokkos_detail::cuda_reads<MemorySpace>;
#ifdef KOKKOS_ENABLE_CUDA
  if (reads && device.id().backend == "cuda")
    reads = kokkos_detail::cuda_device_of(view.data()) == device.id().index;
#endif
  if (!reads)
    throw Error(ErrorCode::invalid_argument,
                "a Kokkos::View '" + view.label() + "' of " + MemorySpace::name() +
                    " memory; expected memory that " + to_string(device.id()) + " works in");
  return kokkos_detail::view_on(view, device.id());
}

/// Opens Plumb's own kernels for what the execution space runs on: "cuda:N" for Kokkos::Cuda, with
/// the device of the instance, and otherwise "cpu". Throws Error (device_unavailable).
template <class Space>
Device device_of(const Space& space) {
  static_assert(kokkos_detail::is_cuda<Space> ||
                    Kokkos::SpaceAccessibility<Space, Kokkos::HostSpace>::accessible,
                "an execution space of the host or of CUDA");
#ifdef KOKKOS_ENABLE_CUDA
  if constexpr (kokkos_detail::is_cuda<Space>)
    return Device::open("cuda:" + std::to_string(space.cuda_device()));
#endif
  static_cast<void>(space);
  return Device::open("cpu");
}

/// Makes a queue that puts its work where the instance has its own. On a device "cuda" that is the
/// instance's stream, which has to outlive the queue. On "kokkos" it is the instance itself. On
/// "cpu" what was put on the instance before is waited for here, and each call of the queue has
/// finished when it returns. Throws Error (invalid_argument) where device and execution space do
/// not fit, or the program's Kokkos is of another version than the backend's.
template <class Space>
Queue queue_of(const Device& device, const Space& space) {
  const auto refuse = [&](const std::string& expected) -> Queue {
    throw Error(ErrorCode::invalid_argument, std::string("an instance of Kokkos' ") +
                                                 Space::name() + " for " + to_string(device.id()) +
                                                 "; expected " + expected);
  };
  if (device.id().backend == "kokkos") {
    if (device.info().driver_version != KOKKOS_VERSION)
      return refuse("a program with the backend's Kokkos, " +
                    std::to_string(device.info().driver_version) + " instead of " +
                    std::to_string(KOKKOS_VERSION));
    std::string name = Space::name();
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    if (name != device.info().alias) return refuse("one of " + device.info().alias);
    Space instance = space;
    return Queue::wrap(device, &instance);
  }
  if constexpr (kokkos_detail::is_cuda<Space>) {
#ifdef KOKKOS_ENABLE_CUDA
    if (device.id() == DeviceId{"cuda", space.cuda_device()})
      return Queue::wrap(device, space.cuda_stream());
#endif
    return refuse("the CUDA device that the instance is of");
  } else {
    if (device.id() != host) return refuse("an execution space of that device");
    space.fence();
    return Queue(device);
  }
}

}  // namespace plumb
