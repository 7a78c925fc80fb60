// Backward weights of floats: see weights_kernel.cuh and README.md.
#include "cuda_kernels/weights/weights_launch.cuh"

namespace plumb::cuda {

void launch_weights_f32(const WeightsPlan& plan, const WeightsCall& call, void* stream) {
  weights::launch_weights<float, float>(plan, call, stream);
}

}  // namespace plumb::cuda
