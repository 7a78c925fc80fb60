// What the current device does at most, measured on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include "plumb/device.hpp"

namespace plumb::cuda {

/// Waits for each measurement; takes 2 GiB of device memory or, where less is free, half of that.
/// Throws Error (out_of_memory, device_failure).
DeviceCeilings measure_ceilings(cudaStream_t stream);

/// The multiprocessors' clock while all of them compute for some 10 ms.
double measure_clock_hertz(cudaStream_t stream);

}  // namespace plumb::cuda
