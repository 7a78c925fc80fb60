#include "tap_copies.hpp"

#include "ranks.hpp"
#include "tensor_bytes.hpp"

namespace plumb {

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
  const std::int64_t plane = to.taps[1] * to.taps[2], filter = to.taps[0] * plane;
  const Strides y_strides{to.group_step, filter, k * filter, to.taps[2], 1};
  for (std::int64_t t = 0; t < taps.taps[0]; ++t)
    queue.pad({.x = ConstTensorView(moved(w, taps.first + t * taps.steps[0] * from[2], dtype),
                                    dtype, extents, device.id, x_strides),
               .y = TensorView(moved(to.filters, t * plane, dtype), dtype, extents, device.id,
                               y_strides)});
}

}  // namespace plumb
