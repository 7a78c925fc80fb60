// A gradient that the sources of octet_weights/ compute on the host.
#pragma once

#include "cuda_kernels/octet_weights/octet_weights.hpp"

namespace plumb_test::emulation {

/// Mistakes are compiled for one form alone.
inline constexpr plumb::cuda::OctetForm mistaken_form{1, 16, 2};

void run_octet_weights(const plumb::cuda::OctetWeightsPlan& plan,
                       const plumb::cuda::WeightsCall& call, plumb::cuda::FewWeightsFault fault);

}  // namespace plumb_test::emulation
