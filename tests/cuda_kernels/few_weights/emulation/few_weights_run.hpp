// A gradient that the sources of few_weights/ compute on the host.
#pragma once

#include "cuda_kernels/few_weights/few_weights.hpp"

namespace plumb_test::emulation {

/// Mistakes are compiled for one tile alone, of f32.
inline constexpr plumb::cuda::FewWeightsTile mistaken_tile{1, 2};

void run_few_weights(const plumb::cuda::FewWeightsPlan& plan, const plumb::cuda::WeightsCall& call,
                     plumb::cuda::FewWeightsFault fault);

}  // namespace plumb_test::emulation
