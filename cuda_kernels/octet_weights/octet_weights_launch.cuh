// Launches both kernels.
#pragma once

#include <algorithm>
#include <iterator>

#include "cuda_kernels/few_weights/few_weights_launch.cuh"
#include "cuda_kernels/octet_weights/octet_weights_kernel.cuh"

namespace plumb::cuda::octet_weights {

inline Params params_of(const OctetWeightsPlan& plan, const WeightsCall& call) {
  Params params{};
  params.few = few_weights::params_of<float>(plan.few(), call), params.cut = plan.cut;
  std::copy(std::begin(plan.taps), std::end(plan.taps), std::begin(params.taps));
  params.tap_tiles = Divisor<int>(plan.cut.tap_tiles);
  params.x_octet = Divisor<int>(plan.cut.x_octet(plan.sizes));
  params.channel_octets = Divisor<int>(plan.cut.channel_octets);
  params.dy_octet = Divisor<int>(plan.cut.dy_octet());
  return params;
}

template <int octets, int tiles, int blocks_at_once, FewWeightsFault fault = FewWeightsFault::none>
void launch_form(const OctetWeightsPlan& plan, const WeightsCall& call, void* stream) {
  const FewWeightsCut& cut = plan.cut.few;
  Launch(stream, blocks_for(cut.blocks_of_part(plan.sizes.groups) * cut.parts, 1),
         static_cast<unsigned>(cut.threads()),
         cut.shared_bytes)(sum_octet_weights<octets, tiles, blocks_at_once, fault>,
                           params_of(plan, call), static_cast<const float*>(call.x),
                           static_cast<const float*>(call.dy), static_cast<float*>(call.parts));
  few_weights::launch_finish<float>(plan.few(), call, stream);
}

}  // namespace plumb::cuda::octet_weights
