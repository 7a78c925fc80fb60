// How long a convolution takes on the device, for programs that time tiles.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "cuda_kernels/primitives/check.hpp"

namespace plumb_test {

/// Keeps the device busy, so that what is timed has been launched when its turn comes: on an idle
/// device an event would be followed by the host's work for the launch.
__global__ inline void pass_time(long long clocks) {
  const long long begin = clock64();
  while (clock64() - begin < clocks) {
  }
}

/// Returns the median of runs of `convolution.launch(plan, buffer)`, which take buffers in turn.
template <class Convolution, class Plan>
double milliseconds(Convolution& convolution, const Plan& plan, int buffers) {
  using plumb::cuda::check;
  constexpr int runs = 15;
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int run = -2; run < runs; ++run) {
    constexpr long long clocks = 200'000;  // some 0.1 ms
    pass_time<<<1, 1>>>(clocks);
    check(cudaEventRecord(begin), "event");
    convolution.launch(plan, (run + 2) % buffers);
    check(cudaEventRecord(end), "event");
    check(cudaEventSynchronize(end), "kernel");
    float time = 0;
    check(cudaEventElapsedTime(&time, begin, end), "event");
    if (run >= 0) times.push_back(time);
  }
  cudaEventDestroy(begin), cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace plumb_test
