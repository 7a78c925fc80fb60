#include "channel_values.hpp"

namespace plumb {

ConstTensorView broadcast(const void* bias, DType dtype, const Extents& extents,
                          const DeviceId& device) {
  return ConstTensorView(bias, dtype, extents, device, {0, 1, 0, 0, 0});
}

void fill(BackendQueue& queue, const TensorView& to, const void* bias) {
  const Extents pixel{to.extent(0), to.extent(1), 1, 1, 1};
  PadLaunch pad{.y = to};
  if (bias) {
    pad.x = broadcast(bias, to.dtype(), pixel, to.device());
    pad.boundary = Boundary::clamp;
  } else {
    // Beside an image of one pixel, which is not read: with channels side by side, as y may have
    // them.
    pad.x = ConstTensorView(to.data(), to.dtype(), pixel, to.device(), {0, 1, 0, 0, 0});
    pad.begin.w = 1;
  }
  queue.pad(pad);
}

}  // namespace plumb
