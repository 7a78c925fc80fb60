// Depthwise convolutions of doubles: see depthwise_planes.cuh, depthwise_channels.cuh and
// README.md.
#include "cuda_kernels/depthwise/depthwise_launch.cuh"

namespace plumb::cuda {

void launch_depthwise_f64(const DepthwisePlan& plan, const ConvLaunch& call) {
  depthwise::launch_depthwise<double>(plan, call);
}

}  // namespace plumb::cuda
