// Whether this build holds code that a device can run.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace plumb::cuda {

/// Success, or why the current device cannot run this build's kernels. Makes the device's context.
cudaError_t find_device_code();

/// The compute capabilities that were compiled for: "8.0, 9.0".
std::string compiled_architectures();

}  // namespace plumb::cuda
