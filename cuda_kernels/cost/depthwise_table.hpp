// Costs of the kernels in depthwise/: counted from their instructions, or guessed; no record has
// their times yet.
#pragma once

namespace plumb::cuda {

struct DepthwiseTable {
  double moved = 0.8;         ///< fixed: guessed, of the nominal rate of memory
  double issued = 0.75;       ///< fixed: guessed, of the rate at which instructions start
  double unit_threads = 512;  ///< fixed: guessed, of a multiprocessor, that hide latencies
};

}  // namespace plumb::cuda
