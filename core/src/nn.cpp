// Operators around convolution: checked here, done by the queue's backend.
#include "plumb/nn.hpp"

#include <fmt/format.h>

#include <utility>

#include "nn_checks.hpp"
#include "overlap.hpp"
#include "plumb/backend.hpp"
#include "ranks.hpp"
#include "sizes.hpp"

namespace plumb {
namespace {

/// Checks what every operator asks of its input and output, whatever their shapes.
void check_pair(const char* name, const Queue& queue, const ConstTensorView& x,
                const ConstTensorView& y) {
  check_one_dtype(name, {{"x", x}, {"y", y}});
  check_input(name, queue, {"x", x});
  check_output(name, queue, {"y", y});
}

/// Windows along one direction of the image.
struct Windows {
  std::int64_t size, stride, dilation, before, after;
};

std::int64_t pooled_extent(std::int64_t input, const Windows& windows, bool ceil_mode,
                           const char* side) {
  const std::int64_t padded = input + windows.before + windows.after;
  check_window_fits("pool", "window", windows.size, windows.dilation, padded, side);
  const std::int64_t reach = windows.dilation * (windows.size - 1) + 1;
  if (windows.before >= reach || windows.after >= reach)
    refuse_argument("pool", fmt::format("padding {} and {} along {}; expected 0 to {}, less than "
                                        "the window",
                                        windows.before, windows.after, side, reach - 1));
  const std::int64_t room = padded - reach;
  std::int64_t count = room / windows.stride + 1;
  // One more window may hang over the end, if it starts on the image or the padding before it.
  if (ceil_mode && room % windows.stride != 0 && count * windows.stride < input + windows.before)
    ++count;
  return count;
}

void check_pool_sizes(const Extents& x, const PoolGeometry& g) {
  const struct {
    const char* name;
    std::int64_t value, minimum;
  } sizes[] = {{"N", x[0], 0},
               {"C", x[1], 0},
               {"D", x[2], 1},
               {"H", x[3], 1},
               {"W", x[4], 1},
               {"window.d", g.window.d, 1},
               {"window.h", g.window.h, 1},
               {"window.w", g.window.w, 1},
               {"stride.d", g.stride.d, 1},
               {"stride.h", g.stride.h, 1},
               {"stride.w", g.stride.w, 1},
               {"dilation.d", g.dilation.d, 1},
               {"dilation.h", g.dilation.h, 1},
               {"dilation.w", g.dilation.w, 1},
               {"padding.front", g.padding.front, 0},
               {"padding.top", g.padding.top, 0},
               {"padding.left", g.padding.left, 0},
               {"padding.back", g.padding.back, 0},
               {"padding.bottom", g.padding.bottom, 0},
               {"padding.right", g.padding.right, 0}};
  for (const auto& size : sizes) check_size("pool", size.name, size.value, size.minimum);
}

}  // namespace

Extents pooled_extents(const Extents& x, const PoolGeometry& geometry) {
  const int rank = x.rank();
  if (rank < 3 || rank > 5)
    refuse_argument("pool", fmt::format("x has extents {}; expected three to five, N C W, N C H W "
                                        "or N C D H W",
                                        to_string(x)));
  const PoolGeometry g = geometry_of_rank(geometry, rank);
  const Extents image{x[0], x[1], rank == 5 ? x[2] : 1, rank >= 4 ? x[rank - 2] : 1, x[rank - 1]};
  check_pool_sizes(image, g);
  const Windows planes{g.window.d, g.stride.d, g.dilation.d, g.padding.front, g.padding.back};
  const Windows rows{g.window.h, g.stride.h, g.dilation.h, g.padding.top, g.padding.bottom};
  const Windows columns{g.window.w, g.stride.w, g.dilation.w, g.padding.left, g.padding.right};
  Extents y = x;
  if (rank == 5) y[2] = pooled_extent(image[2], planes, g.ceil_mode, "planes");
  if (rank >= 4) y[rank - 2] = pooled_extent(image[3], rows, g.ceil_mode, "rows");
  y[rank - 1] = pooled_extent(image[4], columns, g.ceil_mode, "columns");
  return y;
}

void pool(Queue& queue, const ConstTensorView& x, const TensorView& y,
          const PoolGeometry& geometry) {
  check_pair("pool", queue, x, y);
  check_extents("pool", {"y", y}, pooled_extents(x.extents(), geometry));
  refuse_overlap("pool", "x", x, y);
  if (element_count(y.extents()) == 0) return;
  queue.backend().pool({with_all_axes(x), with_all_axes(y), geometry_of_rank(geometry, x.rank())});
  synchronize_if_asked(queue);
}

void linear(Queue& queue, const ConvTensors& tensors, ConvOptions options) {
  const auto as_image = [](const auto& view, const char* name) {
    check_rank("linear", {name, view}, 2, "two");
    check_layout("linear", name, view.extents(), view.strides());
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
  check_extents("relu", {"y", y}, x.extents());
  if (!same_memory(x, y)) refuse_overlap("relu", "x", x, y);
  if (element_count(y.extents()) == 0) return;
  queue.backend().relu(x, y);
  synchronize_if_asked(queue);
}

void softmax(Queue& queue, const ConstTensorView& x, const TensorView& y) {
  check_pair("softmax", queue, x, y);
  check_rank("softmax", {"x", x}, 2, "two, N C");
  check_extents("softmax", {"y", y}, x.extents());
  if (!same_memory(x, y)) refuse_overlap("softmax", "x", x, y);
  if (element_count(y.extents()) == 0) return;
  queue.backend().softmax(x, y);
  synchronize_if_asked(queue);
}

void resize_bilinear(Queue& queue, const ConstTensorView& x, const TensorView& y) {
  check_pair("resize_bilinear", queue, x, y);
  check_rank("resize_bilinear", {"x", x}, 4, "four, N C H W");
  check_rank("resize_bilinear", {"y", y}, 4, "four, N C P Q");
  check_size("resize_bilinear", "H", x.extent(2), 1);
  check_size("resize_bilinear", "W", x.extent(3), 1);
  check_extents("resize_bilinear", {"y", y}, {x.extent(0), x.extent(1), y.extent(2), y.extent(3)});
  refuse_overlap("resize_bilinear", "x", x, y);
  if (element_count(y.extents()) == 0) return;
  queue.backend().resize_bilinear(x, y);
  synchronize_if_asked(queue);
}

}  // namespace plumb
