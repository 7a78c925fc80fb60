// Padding's source compiled for the host.
#include "cuda_kernels/nn/pad.cu"
#include "pad_run.hpp"

namespace plumb_test::emulation {

void run_pad(const plumb::PadLaunch& call) { plumb::cuda::pad(call, nullptr); }

bool is_transposed(const plumb::PadLaunch& call) {
  const auto bytes = static_cast<std::int64_t>(plumb::size_in_bytes(call.x.dtype()));
  return plumb::cuda::TransposeAxes::of(plumb::cuda::axes_in_memory(call), bytes).has_value();
}

}  // namespace plumb_test::emulation
