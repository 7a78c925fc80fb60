// Depthwise backward weights of fp16 with sums in fp32: see README.md.
#include "cuda_kernels/depthwise_weights/depthwise_weights_launch.cuh"

namespace plumb::cuda {

void launch_depthwise_weights_f16(const DepthwiseWeightsPlan& plan, const WeightsCall& call,
                                  void* stream) {
  depthwise_weights::launch_depthwise_weights<float, __half>(plan, call, stream);
}

}  // namespace plumb::cuda
