// The driver is asked about an empty kernel: all kernels of a build are compiled for the same
// architectures, so what holds for one holds for all.
#include "cuda_kernels/primitives/device_code.hpp"

namespace plumb::cuda {
namespace {

__global__ void probe() {}

}  // namespace

cudaError_t find_device_code() {
  cudaFuncAttributes attributes;
  const cudaError_t status = cudaFuncGetAttributes(&attributes, probe);
  if (status != cudaSuccess) cudaGetLastError();
  return status;
}

std::string compiled_architectures() {
  std::string list;
  for (const int architecture : {__CUDA_ARCH_LIST__})
    list += (list.empty() ? "" : ", ") + std::to_string(architecture / 100) + "." +
            std::to_string(architecture % 100 / 10);
  return list;
}

}  // namespace plumb::cuda
