// Backward weights of few channels on tensor cores, of f32: scaled to fp16 in one product, and as
// accurate as fp32 by halves in three products, the small ones in sums of their own (Ootomo &
// Yokota 2022).
#include "cuda_kernels/few_weights/few_weights_launch.cuh"

namespace plumb::cuda {

void launch_few_weights_f32(const FewWeightsPlan& plan, const WeightsCall& call, void* stream) {
  if (plan.of.splits())
    few_weights::launch_few_weights<few_weights::Fp16x3>(plan, call, stream);
  else
    few_weights::launch_few_weights<few_weights::Fp16Scaled>(plan, call, stream);
}

}  // namespace plumb::cuda
