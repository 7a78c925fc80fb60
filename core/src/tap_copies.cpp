#include "tap_copies.hpp"

#include "ranks.hpp"
#include "tensor_bytes.hpp"

namespace plumb {

TapsTo dense_taps(void* filters, std::int64_t channels, const std::int64_t (&taps)[3],
                  std::int64_t group_step) {
  const std::int64_t plane = taps[1] * taps[2], channel = taps[0] * plane;
  return {.filters = filters,
          .group_step = group_step,
          .filter_step = channels * channel,
          .channel_step = channel,
          .steps = {plane, taps[2], 1}};
}

void copy_taps(BackendQueue& queue, const DeviceInfo& device, const ConvProblem& whole,
               const LoweredTaps& taps, const void* w, const TapsTo& to) {
  const DType dtype = whole.dtype;
  const Strides from =
      with_all_axes(ConstTensorView(nullptr, dtype, whole.w_extents(), device.id, whole.w_strides))
          .strides();
  const std::int64_t k = whole.k / whole.groups, c = whole.c / whole.groups;
  const Extents extents{whole.groups, k, c, taps.taps[1], taps.taps[2]};
  const Strides x_strides{k * from[0], from[0], from[1], taps.steps[1] * from[3],
                          taps.steps[2] * from[4]};
  const Strides y_strides{to.group_step, to.channel_step, to.filter_step, to.steps[1], to.steps[2]};
  for (std::int64_t t = 0; t < taps.taps[0]; ++t)
    queue.pad({.x = ConstTensorView(moved(w, taps.first + t * taps.steps[0] * from[2], dtype),
                                    dtype, extents, device.id, x_strides),
               .y = TensorView(moved(to.filters, t * to.steps[0], dtype), dtype, extents, device.id,
                               y_strides)});
}

}  // namespace plumb
