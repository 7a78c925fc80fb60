// Backward weights of fp16 and bf16 with sums in fp32: see weights_kernel.cuh and README.md.
#include "cuda_kernels/weights/weights_launch.cuh"

namespace plumb::cuda {

void launch_weights_f16(const WeightsPlan& plan, const WeightsCall& call, void* stream) {
  weights::launch_weights<float, __half>(plan, call, stream);
}

void launch_weights_bf16(const WeightsPlan& plan, const WeightsCall& call, void* stream) {
  weights::launch_weights<float, __nv_bfloat16>(plan, call, stream);
}

}  // namespace plumb::cuda
