// The kernels of padding, those that join phases and those of sums, on the host.
#pragma once

#include "plumb/backend.hpp"

namespace plumb_test::emulation {

void run_pad(const plumb::PadLaunch& call);
void run_join(const plumb::PhasesLaunch& call);
void run_sum(const plumb::SumLaunch& call);
/// Whether the copy's tiles are turned in shared memory.
bool is_transposed(const plumb::PadLaunch& call);

}  // namespace plumb_test::emulation
