// The sources of depthwise_toeplitz/ compiled for the host, for both stored types.
#include "cuda_kernels/conv/deep_shape.cuh"

namespace plumb::cuda {

inline long sums_by_definition;
template <class Accumulate, class... Arguments>
Accumulate counted_deep_sum(const Arguments&... arguments) {
  ++sums_by_definition;
  return deep_sum<Accumulate>(arguments...);
}

}  // namespace plumb::cuda

#define deep_sum counted_deep_sum
// clang-format off: they follow the definition
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_bf16.cu"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_f16.cu"
#include "depthwise_toeplitz_run.hpp"
// clang-format on

namespace plumb_test::emulation {

using namespace plumb::cuda;
using Fault = DepthwiseToeplitzFault;

namespace {

void run(const DepthwiseToeplitzPlan& plan, const plumb::ConvLaunch& call, Fault fault) {
  const auto with = [&]<Fault of>() {
    constexpr DepthwiseToeplitzTile tile = mistaken_tile;
    if (!(plan.cut.tile == tile) || plan.w.stride != 1)
      throw std::logic_error("a tile without mistakes");
    depthwise_toeplitz::launch_tile<__half, true, tile.m, tile.n, of>(plan, call);
  };
  switch (fault) {
    case Fault::none:
      return call.problem.dtype == plumb::DType::f16 ? launch_depthwise_toeplitz_f16(plan, call)
                                                     : launch_depthwise_toeplitz_bf16(plan, call);
    case Fault::stale_stage: return with.template operator()<Fault::stale_stage>();
    case Fault::wrong_tap: return with.template operator()<Fault::wrong_tap>();
    case Fault::wrong_parity: return with.template operator()<Fault::wrong_parity>();
    case Fault::exchanged_halves: return with.template operator()<Fault::exchanged_halves>();
    case Fault::padding_of_ones: return with.template operator()<Fault::padding_of_ones>();
  }
}

}  // namespace

long run_depthwise_toeplitz(const DepthwiseToeplitzPlan& plan, const plumb::ConvLaunch& call,
                            Fault fault) {
  sums_by_definition = 0;
  run(plan, call, fault);
  return sums_by_definition;
}

}  // namespace plumb_test::emulation
