// A model of the kernels in depthwise/: bytes of memory, and instructions for each output.
#pragma once

#include "cuda_kernels/cost/kernel_model.hpp"

namespace plumb::cuda {

/// What the threads of a plan do.
struct DepthwiseWork {
  double bytes = 0;          ///< the least that has to be moved
  double reread = 1;         ///< what is read of x, over its bytes
  double outputs = 0;        ///< of the problem
  double fmas = 0;           ///< for an output, idle lanes counted
  double others = 0;         ///< instructions for an output beside them
  double threads = 0;        ///< that have work
  double thread_clocks = 0;  ///< latency of one of them
  bool is_double = false;    ///< sums in fp64
};

double depthwise_seconds(const ConvProblem& problem, const DeviceInfo& device,
                         const DepthwiseWork& work);

}  // namespace plumb::cuda
