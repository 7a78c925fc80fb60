// The kernels of padding, and those that join phases, on the host.
#pragma once

#include "plumb/backend.hpp"

namespace plumb_test::emulation {

void run_pad(const plumb::PadLaunch& call);
void run_join(const plumb::PhasesLaunch& call);
/// Whether the copy's tiles are turned in shared memory.
bool is_transposed(const plumb::PadLaunch& call);

}  // namespace plumb_test::emulation
