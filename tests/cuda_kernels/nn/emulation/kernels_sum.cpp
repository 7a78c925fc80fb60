// The sums over all but the channels, compiled for the host.
#include <cmath>

/// To the nearest float that is not farther from zero.
inline float __double2float_rz(double value) {
  const float nearest = static_cast<float>(value);
  return std::fabs(static_cast<double>(nearest)) > std::fabs(value) ? std::nextafter(nearest, 0.0f)
                                                                    : nearest;
}

#include "cuda_kernels/nn/sum_channels.cu"
#include "pad_run.hpp"

namespace plumb_test::emulation {

void run_sum(const plumb::SumLaunch& call) { plumb::cuda::sum_channels(call, nullptr); }

}  // namespace plumb_test::emulation
