// Anything with the interface of std::mdspan serves as a tensor view, whoever it is from (C++23's
// own, the reference implementation, Kokkos'): no header of theirs is included.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "plumb/error.hpp"
#include "plumb/tensor.hpp"

namespace plumb {

/// The interface asked of an mdspan: rank, extents, strides, and a handle that is a plain pointer
/// to elements of a type that tensors have.
template <class M>
concept MdspanLike = requires(const M& m, typename M::rank_type i) {
  typename M::element_type;
  typename M::extents_type;
  { m.data_handle() } -> std::convertible_to<const volatile void*>;
  { M::rank() } -> std::convertible_to<std::size_t>;
  { m.extent(i) } -> std::convertible_to<std::int64_t>;
  { m.stride(i) } -> std::convertible_to<std::int64_t>;
  { m.is_strided() } -> std::convertible_to<bool>;
  dtype_of<typename M::element_type>;
}
&&std::is_pointer_v<std::remove_cvref_t<decltype(std::declval<const M&>().data_handle())>>;

/// Returns the mdspan's memory as a tensor, its indices in their order; nothing is copied. The
/// memory is of `device`, which an mdspan does not tell: it is the host unless said otherwise, and
/// has to stay as long as the view is used. const elements make a ConstTensorView. Throws Error
/// (invalid_argument) where the mdspan's layout has no strides.
template <MdspanLike M>
auto tensor_view(const M& m, DeviceId device = host) {
  using Element = typename M::element_type;
  using Void = std::conditional_t<std::is_const_v<Element>, const void, void>;
  static_assert(M::rank() >= 1 && M::rank() <= Dims::max_rank, "tensors have 1 to 6 dimensions");
  if (!m.is_strided())
    throw Error(ErrorCode::invalid_argument, "an mdspan whose layout has no strides");
  std::int64_t extents[Dims::max_rank] = {}, strides[Dims::max_rank] = {};
  for (std::size_t i = 0; i < M::rank(); ++i) {
    const auto rank = static_cast<typename M::rank_type>(i);
    extents[i] = static_cast<std::int64_t>(m.extent(rank));
    strides[i] = static_cast<std::int64_t>(m.stride(rank));
  }
  return BasicTensorView<Void>(m.data_handle(), dtype_of<Element>, Extents(extents, M::rank()),
                               device, Strides(strides, M::rank()));
}

}  // namespace plumb
