// The ceilings of the tensor cores.
#pragma once

#include <cuda_runtime_api.h>

namespace plumb::cuda {

/// Operations per second with sums in fp32; 0 where the device or this build has no such code.
struct TensorCoreRates {
  double tf32 = 0, bf16 = 0, fp16 = 0;
};

/// The larger of what warps reach (mma.sync, from registers) and warpgroups (wgmma, from shared
/// memory, on sm_90a).
TensorCoreRates measure_tensor_cores(cudaStream_t stream);

}  // namespace plumb::cuda
