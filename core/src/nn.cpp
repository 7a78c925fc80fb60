// Operators around convolution: checked here, done by the queue's backend.
#include "plumb/nn.hpp"

#include <fmt/format.h>

#include "environment.hpp"
#include "overlap.hpp"
#include "plumb/backend.hpp"
#include "plumb/error.hpp"

namespace plumb {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

/// Checks what every operator asks of its input and output, whatever their shapes.
void check_pair(const char* name, const Queue& queue, const ConstTensorView& x,
                const ConstTensorView& y) {
  if (x.dtype() != y.dtype())
    refuse(fmt::format("{}: x is {}, y is {}; expected one dtype", name, to_string(x.dtype()),
                       to_string(y.dtype())));
  const DeviceId here = queue.device().id();
  for (const ConstTensorView& view : {x, y}) {
    if (view.device() != here)
      refuse(fmt::format("{}: a view is on {}; the queue is on {} (use plumb::copy)", name,
                         to_string(view.device()), to_string(here)));
    if (view.strides().rank() != view.rank())
      refuse(fmt::format("{}: {} strides for extents {}", name, view.strides().rank(),
                         to_string(view.extents())));
    if (!view.data() && element_count(view.extents()) > 0)
      refuse(fmt::format("{}: a view of {} has no data (a null pointer)", name,
                         to_string(view.extents())));
  }
  if (overlaps_itself(y.extents(), y.strides()))
    refuse(fmt::format("{}: y of {} with strides {} overlaps itself", name, to_string(y.extents()),
                       to_string(y.strides())));
}

void check_extents(const char* name, const ConstTensorView& y, const Extents& expected) {
  if (y.extents() != expected)
    refuse(
        fmt::format("{}: y is {}; expected {}", name, to_string(y.extents()), to_string(expected)));
}

void check_rank(const char* name, const Extents& extents, int rank, const char* letters) {
  if (extents.rank() != rank)
    refuse(fmt::format("{}: extents {}; expected {}", name, to_string(extents), letters));
}

std::int64_t pooled_extent(std::int64_t input, std::int64_t window, std::int64_t stride,
                           std::int64_t dilation, std::int64_t before, std::int64_t after,
                           bool ceil_mode, const char* side) {
  if (input < 1 || window < 1 || stride < 1 || dilation < 1)
    refuse(fmt::format("pool: {} {}, window {}, stride {}, dilation {}; each at least 1", input,
                       side, window, stride, dilation));
  const std::int64_t reach = dilation * (window - 1) + 1;
  if (before < 0 || after < 0 || before >= reach || after >= reach)
    refuse(fmt::format("pool: padding {} and {} along {}; expected 0 to {}, less than the window",
                       before, after, side, reach - 1));
  const std::int64_t room = input + before + after - reach;
  if (room < 0)
    refuse(fmt::format("pool: a window reaching {} does not fit into {} padded {}", reach,
                       input + before + after, side));
  std::int64_t count = room / stride + 1;
  // One more window may hang over the end, if it starts on the image or the padding before it.
  if (ceil_mode && room % stride != 0 && count * stride < input + before) ++count;
  return count;
}

void synchronize_if_asked(Queue& queue) {
  if (environment_flag("PLUMB_SYNC")) queue.synchronize();
}

}  // namespace

Extents pooled_extents(const Extents& x, const PoolGeometry& g) {
  check_rank("pool", x, 4, "four, N C H W");
  return {x[0], x[1],
          pooled_extent(x[2], g.window.h, g.stride.h, g.dilation.h, g.padding.top, g.padding.bottom,
                        g.ceil_mode, "rows"),
          pooled_extent(x[3], g.window.w, g.stride.w, g.dilation.w, g.padding.left, g.padding.right,
                        g.ceil_mode, "columns")};
}

void pool(Queue& queue, const ConstTensorView& x, const TensorView& y,
          const PoolGeometry& geometry) {
  check_pair("pool", queue, x, y);
  check_extents("pool", y, pooled_extents(x.extents(), geometry));
  if (element_count(y.extents()) == 0) return;
  queue.backend().pool({x, y, geometry});
  synchronize_if_asked(queue);
}

void linear(Queue& queue, const ConvTensors& tensors, ConvOptions options) {
  const auto as_image = [](const auto& view, const char* name) {
    if (view.rank() != 2)
      refuse(
          fmt::format("linear: {} has extents {}; expected two", name, to_string(view.extents())));
    return std::remove_cvref_t<decltype(view)>(
        view.data(), view.dtype(), {view.extent(0), view.extent(1), 1, 1}, view.device(),
        {view.stride(0), view.stride(1), 1, 1});
  };
  conv(queue,
       {.x = as_image(tensors.x, "x"),
        .w = as_image(tensors.w, "w"),
        .bias = tensors.bias,
        .y = as_image(tensors.y, "y")},
       {}, std::move(options));
}

void relu(Queue& queue, const ConstTensorView& x, const TensorView& y) {
  check_pair("relu", queue, x, y);
  check_extents("relu", y, x.extents());
  if (element_count(y.extents()) == 0) return;
  queue.backend().relu(x, y);
  synchronize_if_asked(queue);
}

void softmax(Queue& queue, const ConstTensorView& x, const TensorView& y) {
  check_pair("softmax", queue, x, y);
  check_rank("softmax", x.extents(), 2, "two, N C");
  check_extents("softmax", y, x.extents());
  if (element_count(y.extents()) == 0) return;
  queue.backend().softmax(x, y);
  synchronize_if_asked(queue);
}

void resize_bilinear(Queue& queue, const ConstTensorView& x, const TensorView& y) {
  check_pair("resize_bilinear", queue, x, y);
  check_rank("resize_bilinear", x.extents(), 4, "four, N C H W");
  check_rank("resize_bilinear", y.extents(), 4, "four, N C P Q");
  if (x.extent(2) < 1 || x.extent(3) < 1)
    refuse(fmt::format("resize_bilinear: x is {}; expected at least one pixel",
                       to_string(x.extents())));
  check_extents("resize_bilinear", y, {x.extent(0), x.extent(1), y.extent(2), y.extent(3)});
  if (element_count(y.extents()) == 0) return;
  queue.backend().resize_bilinear(x, y);
  synchronize_if_asked(queue);
}

}  // namespace plumb
