// Costs of the kernels in depthwise_weights/: counted from their instructions, or guessed.
#pragma once

namespace plumb::cuda {

struct DepthwiseWeightsTable {
  double reached = 1.2;       ///< fixed: guessed, clocks over those that the busiest pipe needs
  double of_step = 25;        ///< fixed: instructions beside a step's reads and FMAs, counted
  double of_unit = 150;       ///< fixed: instructions of a warp to find a unit, counted
  double of_read = 3;         ///< fixed: address, condition and load of an element by way of L1
  double of_widening = 1;     ///< fixed: to convert one
  double of_copy = 12;        ///< fixed: instructions to copy an element to shared memory, counted
  double of_barriers = 1200;  ///< fixed: guessed, clocks of a block that waits for its copies
  double bytes_clock = 16;    ///< fixed: bytes of memory in a clock of a multiprocessor
  double enough_warps = 12;   ///< fixed: guessed, of a multiprocessor, to hide latencies
  double ends = 3000;         ///< fixed: guessed, clocks of a block's first load and last sums
};

}  // namespace plumb::cuda
