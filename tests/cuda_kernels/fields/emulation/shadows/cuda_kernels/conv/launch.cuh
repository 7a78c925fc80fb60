// Launches, emulated: a kernel has run when its launch returns.
#pragma once

#include "cuda_kernels/fields/emulation/emulation.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/primitives/named_barrier.cuh"

namespace plumb::cuda {

inline unsigned blocks_for(std::int64_t count, std::int64_t per_block) {
  return static_cast<unsigned>(ceil_div(count, per_block));
}

class Launch {
 public:
  Launch(void*, unsigned blocks, unsigned threads, std::size_t shared_bytes = 0)
      : blocks_(blocks), threads_(threads), shared_bytes_(shared_bytes) {}
  Launch& early() { return *this; }
  Launch& cluster(int blocks) {
    cluster_ = static_cast<unsigned>(blocks);
    return *this;
  }

  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(Parameters...), const Arguments&... arguments) const {
    named_barriers() = {};
    plumb_test::emulation::run_grid(
        blocks_, threads_, shared_bytes_, [&] { kernel(arguments...); }, cluster_);
  }

 private:
  unsigned blocks_, threads_, cluster_ = 1;
  std::size_t shared_bytes_;
};

}  // namespace plumb::cuda
