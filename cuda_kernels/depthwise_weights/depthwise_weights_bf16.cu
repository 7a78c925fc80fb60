// Depthwise backward weights of bf16 with sums in fp32: see README.md.
#include "cuda_kernels/depthwise_weights/depthwise_weights_launch.cuh"

namespace plumb::cuda {

void launch_depthwise_weights_bf16(const DepthwiseWeightsPlan& plan, const WeightsCall& call,
                                   void* stream) {
  depthwise_weights::launch_depthwise_weights<float, __nv_bfloat16>(plan, call, stream);
}

}  // namespace plumb::cuda
