// plumb.jax's handlers for XLA's foreign function interface: convolutions as a part of what jax.jit
// compiles. Their arguments are XLA's buffers, dense, and what plumb/jax.py says of the
// convolution. Built where CMake finds the interface's headers, which come with jaxlib; without
// them plumb.jax says so.
#include <nanobind/nanobind.h>

#include "parts.hpp"

#ifdef PLUMB_JAX
#include <xla/ffi/api/ffi.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "plumb/conv.hpp"
#include "plumb/error.hpp"
#include "queues.hpp"

namespace plumb::python {
namespace {

namespace nb = nanobind;
namespace ffi = xla::ffi;
using Numbers = ffi::Span<const std::int64_t>;

DType dtype_of(ffi::DataType type) {
  switch (type) {
    case ffi::F32: return DType::f32;
    case ffi::F64: return DType::f64;
    case ffi::F16: return DType::f16;
    case ffi::BF16: return DType::bf16;
    default:
      throw Error(ErrorCode::invalid_argument,
                  "elements are of XLA's type " + std::to_string(static_cast<int>(type)) +
                      "; expected float32, float64, float16 or bfloat16");
  }
}

TensorView view_of(const ffi::AnyBuffer& buffer, const DeviceId& device) {
  const auto extents = buffer.dimensions();
  return {buffer.untyped_data(), dtype_of(buffer.element_type()),
          Extents(extents.begin(), extents.size()), device};
}

/// Each list has a number for depth, height and width; the padding has six, in the order of
/// Padding's.
ConvGeometry geometry_of(Numbers stride, Numbers padding, Numbers dilation, std::int64_t groups,
                         std::string_view boundary) {
  const Padding sides(padding[0], padding[1], padding[2], padding[3], padding[4], padding[5]);
  return {.stride = {stride[0], stride[1], stride[2]},
          .dilation = {dilation[0], dilation[1], dilation[2]},
          .padding = sides,
          .groups = groups,
          .boundary = parse_boundary(boundary).value_or(Boundary::zeros)};
}

ffi::Error run(Queue& queue, const ffi::AnyBuffer& a, const ffi::AnyBuffer& b,
               const ffi::AnyBuffer& into, std::string_view direction, const ConvGeometry& geometry,
               std::string_view math) {
  const DeviceId& device = queue.device().id();
  const TensorView first = view_of(a, device), second = view_of(b, device),
                   output = view_of(into, device);
  const ConvOptions options{.math = parse_math(math).value_or(Math::fp32)};
  switch (parse_direction(direction).value_or(Direction::forward)) {
    case Direction::forward:
      conv(queue, {.x = first, .w = second, .y = output}, geometry, options);
      break;
    case Direction::backward_data:
      conv_backward_data(queue, {.dy = first, .w = second, .dx = output}, geometry, options);
      break;
    case Direction::backward_weights:
      conv_backward_weights(queue, {.x = first, .dy = second, .dw = output}, geometry, options);
      break;
  }
  return ffi::Error::Success();
}

/// XLA takes no exceptions.
template <class Work>
ffi::Error guarded(Work work) {
  try {
    return work();
  } catch (const Error& error) {
    return {ffi::ErrorCode::kInvalidArgument, std::string(error.what())};
  } catch (const std::exception& error) {
    return {ffi::ErrorCode::kInternal, std::string(error.what())};
  }
}

ffi::Error on_cpu(ffi::AnyBuffer a, ffi::AnyBuffer b, ffi::Result<ffi::AnyBuffer> into,
                  Numbers stride, Numbers padding, Numbers dilation, std::int64_t groups,
                  std::string_view boundary, std::string_view math, std::string_view direction) {
  return guarded([&] {
    Queue& queue = queue_for(opened("cpu"), Framework::jax);
    return run(queue, a, b, *into, direction,
               geometry_of(stride, padding, dilation, groups, boundary), math);
  });
}

ffi::Error on_cuda(void* stream, std::int32_t ordinal, ffi::AnyBuffer a, ffi::AnyBuffer b,
                   ffi::Result<ffi::AnyBuffer> into, Numbers stride, Numbers padding,
                   Numbers dilation, std::int64_t groups, std::string_view boundary,
                   std::string_view math, std::string_view direction) {
  return guarded([&] {
    Queue& queue = queue_on(opened("cuda:" + std::to_string(ordinal)), stream);
    return run(queue, a, b, *into, direction,
               geometry_of(stride, padding, dilation, groups, boundary), math);
  });
}

template <class Binding>
auto with_attributes(Binding binding) {
  return std::move(binding)
      .template Arg<ffi::AnyBuffer>()
      .template Arg<ffi::AnyBuffer>()
      .template Ret<ffi::AnyBuffer>()
      .template Attr<Numbers>("stride")
      .template Attr<Numbers>("padding")
      .template Attr<Numbers>("dilation")
      .template Attr<std::int64_t>("groups")
      .template Attr<std::string_view>("boundary")
      .template Attr<std::string_view>("math")
      .template Attr<std::string_view>("direction");
}

XLA_FFI_DEFINE_HANDLER(conv_on_cpu, on_cpu, with_attributes(ffi::Ffi::Bind()));
// XLA is not told that the handler may be recorded into a CUDA graph: it records on a stream of its
// own, whose queue has no workspace, and the memory that it lends a handler goes back with the
// call.
XLA_FFI_DEFINE_HANDLER(
    conv_on_cuda, on_cuda,
    with_attributes(ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void*>>().Ctx<ffi::DeviceOrdinal>()));

}  // namespace

void bind_jax(nb::module_& module) {
  module.def("_jax_handlers", [] {
    nb::dict handlers;
    handlers["cpu"] = nb::capsule(reinterpret_cast<void*>(conv_on_cpu), "xla._CUSTOM_CALL_TARGET");
    handlers["CUDA"] =
        nb::capsule(reinterpret_cast<void*>(conv_on_cuda), "xla._CUSTOM_CALL_TARGET");
    return handlers;
  });
}

}  // namespace plumb::python

#else

namespace plumb::python {

void bind_jax(nanobind::module_& module) {
  module.def("_jax_handlers", [] { return nanobind::dict(); });
}

}  // namespace plumb::python

#endif
