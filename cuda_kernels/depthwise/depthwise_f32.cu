// Depthwise convolutions of floats: see depthwise_planes.cuh, depthwise_channels.cuh and README.md.
#include "cuda_kernels/depthwise/depthwise_launch.cuh"

namespace plumb::cuda {

void launch_depthwise_f32(const DepthwisePlan& plan, const ConvLaunch& call) {
  depthwise::launch_depthwise<float>(plan, call);
}

}  // namespace plumb::cuda
