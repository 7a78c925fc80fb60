// Tensors, views of views, and copies between devices.
#include "plumb/tensor.hpp"

#include <fmt/format.h>

#include "owned_memory.hpp"
#include "plumb/error.hpp"
#include "sizes.hpp"
#include "span.hpp"

namespace plumb {
namespace {

template <class View>
View slice_view(const View& view, int dimension, std::int64_t begin, std::int64_t count) {
  if (dimension < 0 || dimension >= view.rank())
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("slice of dimension {} of a tensor of rank {}", dimension, view.rank()));
  check_layout("slice", "the view", view.extents(), view.strides());
  const std::int64_t extent = view.extent(dimension);
  if (begin < 0 || count < 0 || count > extent || begin > extent - count)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("slice [{}, {} + {}) of an extent of {}", begin, begin, count, extent));
  Extents extents = view.extents();
  extents[dimension] = count;
  using Byte = std::conditional_t<std::is_same_v<View, TensorView>, std::byte, const std::byte>;
  // An empty slice at the end begins at an element that there may not be.
  const std::int64_t offset =
      count == 0
          ? 0
          : begin * view.stride(dimension) * static_cast<std::int64_t>(size_in_bytes(view.dtype()));
  return View(static_cast<Byte*>(view.data()) + offset, view.dtype(), extents, view.device(),
              view.strides());
}

template <class View>
View reshape_view(const View& view, const Extents& extents) {
  if (!view.is_dense())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("reshape of a view with strides {}; expected a dense one",
                            to_string(view.strides())));
  if (element_count(extents) != element_count(view.extents()))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("reshape of {} to {}: the counts differ", to_string(view.extents()),
                            to_string(extents)));
  return View(view.data(), view.dtype(), extents, view.device());
}

}  // namespace

TensorView slice(const TensorView& view, int dimension, std::int64_t begin, std::int64_t count) {
  return slice_view(view, dimension, begin, count);
}
ConstTensorView slice(const ConstTensorView& view, int dimension, std::int64_t begin,
                      std::int64_t count) {
  return slice_view(view, dimension, begin, count);
}
TensorView reshape(const TensorView& view, const Extents& extents) {
  return reshape_view(view, extents);
}
ConstTensorView reshape(const ConstTensorView& view, const Extents& extents) {
  return reshape_view(view, extents);
}

Tensor::Tensor(const Device& device, DType dtype, const Extents& extents, const Strides& strides,
               Memory memory) {
  element_count(extents);  // throws on a negative extent or a product past 2^60
  const Strides used = strides.empty() ? dense_strides(extents) : strides;
  check_output_layout("tensor", "memory", extents, used);
  const Span span = span_of(extents, used);
  const std::size_t element_bytes = size_in_bytes(dtype);
  const std::size_t bytes = std::max<std::size_t>(1, span.elements * element_bytes);
  storage_ = owned_memory(device, bytes, memory);
  view_ = TensorView(static_cast<std::byte*>(storage_.get()) + span.below * element_bytes, dtype,
                     extents, memory == Memory::pinned_host ? host : device.id(), used);
}

}  // namespace plumb
