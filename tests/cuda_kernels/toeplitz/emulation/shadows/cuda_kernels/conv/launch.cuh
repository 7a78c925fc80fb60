// Launches, emulated: a kernel has run when its launch returns.
#pragma once

#include <algorithm>

#include "cuda_kernels/fields/emulation/emulation.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/primitives/named_barrier.cuh"
#include "plumb/device.hpp"

namespace plumb::cuda {

inline unsigned blocks_for(std::int64_t count, std::int64_t per_block) {
  return static_cast<unsigned>(ceil_div(count, per_block));
}

class Launch {
 public:
  Launch(void*, unsigned blocks, unsigned threads, std::size_t shared_bytes = 0)
      : blocks_(blocks), threads_(threads), shared_bytes_(shared_bytes) {}
  template <class Kernel>
  Launch& resident(Kernel, const DeviceInfo& device) {
    blocks_ = std::min(blocks_, static_cast<unsigned>(device.units));
    return *this;
  }

  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(Parameters...), const Arguments&... arguments) const {
    named_barriers() = {};
    plumb_test::emulation::run_grid(blocks_, threads_, shared_bytes_,
                                    [&] { kernel(arguments...); });
  }

 private:
  unsigned blocks_, threads_;
  std::size_t shared_bytes_;
};

}  // namespace plumb::cuda
