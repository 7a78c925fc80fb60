// Says whether this build holds code that a device can run.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace plumb::cuda {

/// Returns success, or why the current device cannot run this build's kernels. It creates the
/// device's context.
cudaError_t find_device_code();

/// Lists the compute capabilities that the kernels were compiled for: "8.0, 9.0".
std::string compiled_architectures();

}  // namespace plumb::cuda
