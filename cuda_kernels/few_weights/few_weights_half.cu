// Backward weights of few channels on tensor cores, of f16 and bf16.
#include "cuda_kernels/few_weights/few_weights_launch.cuh"

namespace plumb::cuda {

void launch_few_weights_half(const FewWeightsPlan& plan, const WeightsCall& call, void* stream) {
  if (plan.of.stored == DType::f16)
    few_weights::launch_few_weights<few_weights::Fp16>(plan, call, stream);
  else
    few_weights::launch_few_weights<few_weights::Bf16>(plan, call, stream);
}

}  // namespace plumb::cuda
