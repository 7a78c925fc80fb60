// The kernels of depthwise backward weights, compiled for the host.
#include "cuda_kernels/depthwise_weights/depthwise_weights_f32.cu"
#include "cuda_kernels/depthwise_weights/depthwise_weights_f64.cu"

namespace plumb::cuda {

void launch_depthwise_weights_f16(const DepthwiseWeightsPlan& plan, const WeightsCall& call,
                                  void* stream) {
  depthwise_weights::launch_depthwise_weights<float, Half>(plan, call, stream);
}

}  // namespace plumb::cuda

namespace plumb_test::emulation {

void wait_too_little(bool does) { waits_too_little = does; }

}  // namespace plumb_test::emulation
