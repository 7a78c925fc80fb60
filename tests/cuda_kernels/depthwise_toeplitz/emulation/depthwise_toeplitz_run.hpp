// A convolution that the sources of depthwise_toeplitz/ compute on the host.
#pragma once

#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz.hpp"

namespace plumb_test::emulation {

/// Mistakes are compiled for one tile alone, of f16, whose columns have stride 1.
inline constexpr plumb::cuda::DepthwiseToeplitzTile mistaken_tile{2, 4};

/// Returns how many outputs were summed by the definition: of finite values none is, or something
/// was read that nobody wrote.
long run_depthwise_toeplitz(const plumb::cuda::DepthwiseToeplitzPlan& plan,
                            const plumb::ConvLaunch& call,
                            plumb::cuda::DepthwiseToeplitzFault fault);

}  // namespace plumb_test::emulation
