// The kernels of backward weights, compiled for the host.
#include "cuda_kernels/weights/weights_f32.cu"
#include "cuda_kernels/weights/weights_f64.cu"

namespace plumb::cuda {

void launch_weights_f16(const WeightsPlan& plan, const WeightsCall& call, void* stream) {
  weights::launch_weights<float, Half>(plan, call, stream);
}

}  // namespace plumb::cuda

namespace plumb_test::emulation {

void wait_too_little(bool does) { waits_too_little = does; }

}  // namespace plumb_test::emulation
