#include "cuda_kernels/conv/conv_support.hpp"

#include <fmt/format.h>

#include "plumb/support.hpp"

namespace plumb::cuda {
Support fits_shared_memory(double bytes, const DeviceInfo& device) {
  if (bytes <= static_cast<double>(device.shared_memory_bytes)) return {};
  return {Reason::device_limit,
          fmt::format("needs {:.0f} bytes of shared memory; a block of the device may have {}",
                      bytes, device.shared_memory_bytes)};
}

int row_vector(const void* data, const Extents& extents, const Strides& strides,
               std::int64_t element_bytes) {
  const int last = extents.rank() - 1;
  for (const std::int64_t width : {4, 2}) {
    bool aligned = reinterpret_cast<std::uintptr_t>(data) % (width * element_bytes) == 0 &&
                   (extents[last] == 1 || strides[last] == 1);
    for (int i = 0; i < last; ++i)
      aligned = aligned && (extents[i] == 1 || strides[i] % width == 0);
    if (aligned) return static_cast<int>(width);
  }
  return 1;
}

}  // namespace plumb::cuda
