// Depthwise convolutions of f16 on tensor cores: see depthwise_toeplitz_kernel.cuh and README.md.
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_launch.cuh"

namespace plumb::cuda {

void launch_depthwise_toeplitz_f16(const DepthwiseToeplitzPlan& plan, const ConvLaunch& call) {
  depthwise_toeplitz::launch_depthwise_toeplitz<__half>(plan, call);
}

}  // namespace plumb::cuda
