// A model of the kernels in depthwise/: what a thread issues and waits for, how many blocks a
// multiprocessor holds, and bytes of memory.
#pragma once

#include "cuda_kernels/cost/kernel_model.hpp"

namespace plumb::cuda {

/// How a plan's blocks lie on the device, and what one of their threads does.
struct DepthwiseWork {
  double blocks = 0;        ///< of the launch
  double resident = 1;      ///< blocks that a multiprocessor holds at a time
  double warps = 1;         ///< of a block
  double fmas = 0;          ///< idle lanes and columns counted
  double instructions = 0;  ///< counted beside them
  double steps = 0;         ///< of a march
  double tap_rows = 0;      ///< of a march: rows of taps that its steps add
  double converted = 0;     ///< elements that are widened
  double memory_waits = 0;  ///< waits for what comes from memory
  double filter_waits = 0;  ///< waits for weights, which come one after another
  double lines = 0;  ///< lines of L1 and waves of shared memory that its warp reads and writes
  double piece_bytes = 0;    ///< of staged rows: channels of a pixel that a warp has
  double written_again = 0;  ///< bytes of sectors that are written in parts, beyond those of y
  bool in_turn = false;      ///< a block's loads and its sums take turns, between barriers
  bool staged = false;       ///< a march over staged rows: many FMAs that wait for no other
  bool is_double = false;    ///< sums in fp64
};

double depthwise_seconds(const ConvProblem& problem, const DeviceInfo& device,
                         const DepthwiseWork& work);

}  // namespace plumb::cuda
