// Depthwise convolutions of bf16 on tensor cores: see depthwise_toeplitz_kernel.cuh and README.md.
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_launch.cuh"

namespace plumb::cuda {

void launch_depthwise_toeplitz_bf16(const DepthwiseToeplitzPlan& plan, const ConvLaunch& call) {
  depthwise_toeplitz::launch_depthwise_toeplitz<__nv_bfloat16>(plan, call);
}

}  // namespace plumb::cuda
