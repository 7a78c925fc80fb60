// The sources of few_weights/ compiled for the host, in each arithmetic.
#include "cuda_kernels/few_weights/few_weights_f32.cu"
#include "cuda_kernels/few_weights/few_weights_half.cu"
#include "few_weights_run.hpp"

namespace plumb_test::emulation {

using namespace plumb::cuda;

void run_few_weights(const FewWeightsPlan& plan, const WeightsCall& call, FewWeightsFault fault) {
  const auto with = [&]<FewWeightsFault of>() {
    constexpr FewWeightsTile tile = mistaken_tile;
    if (!(plan.cut.tile == tile) || !plan.of.scales())
      throw std::logic_error("a tile without mistakes");
    if (plan.of.splits())
      few_weights::launch_tile<few_weights::Fp16x3, tile.m, tile.n, of>(plan, call, nullptr);
    else
      few_weights::launch_tile<few_weights::Fp16Scaled, tile.m, tile.n, of>(plan, call, nullptr);
  };
  switch (fault) {
    case FewWeightsFault::none:
      return plan.of.stored == plumb::DType::f32 ? launch_few_weights_f32(plan, call, nullptr)
                                                 : launch_few_weights_half(plan, call, nullptr);
    case FewWeightsFault::lost_warp: return with.template operator()<FewWeightsFault::lost_warp>();
    case FewWeightsFault::wrong_tap: return with.template operator()<FewWeightsFault::wrong_tap>();
    case FewWeightsFault::no_low: return with.template operator()<FewWeightsFault::no_low>();
    case FewWeightsFault::stale_stage:
      return with.template operator()<FewWeightsFault::stale_stage>();
    case FewWeightsFault::lost_range:
      return with.template operator()<FewWeightsFault::lost_range>();
  }
}

}  // namespace plumb_test::emulation
