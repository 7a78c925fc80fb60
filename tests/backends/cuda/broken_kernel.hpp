// The sticky error of CUDA, on purpose.
#pragma once

namespace plumb_test {

/// On the current device and the default stream; returns before the kernel fails.
void launch_broken_kernel();

}  // namespace plumb_test
