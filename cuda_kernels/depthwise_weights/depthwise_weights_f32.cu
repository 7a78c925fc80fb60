// Depthwise backward weights of floats: see README.md.
#include "cuda_kernels/depthwise_weights/depthwise_weights_launch.cuh"

namespace plumb::cuda {

void launch_depthwise_weights_f32(const DepthwiseWeightsPlan& plan, const WeightsCall& call,
                                  void* stream) {
  depthwise_weights::launch_depthwise_weights<float, float>(plan, call, stream);
}

}  // namespace plumb::cuda
