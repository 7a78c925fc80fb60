// Depthwise convolutions of bfloat16s: see depthwise_planes.cuh, depthwise_channels.cuh and
// README.md.
#include "cuda_kernels/depthwise/depthwise_launch.cuh"

namespace plumb::cuda {

void launch_depthwise_bf16(const DepthwisePlan& plan, const ConvLaunch& call) {
  depthwise::launch_depthwise<__nv_bfloat16>(plan, call);
}

}  // namespace plumb::cuda
