// What joins phases, compiled for the host.
#include "cuda_kernels/nn/join_phases.cu"
#include "pad_run.hpp"

namespace plumb_test::emulation {

void run_join(const plumb::PhasesLaunch& call) { plumb::cuda::join_phases(call, nullptr); }

}  // namespace plumb_test::emulation
