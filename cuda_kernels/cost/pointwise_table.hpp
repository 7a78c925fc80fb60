// Costs of the kernel in pointwise/: ten fitted to 120 times on one H100
// of problems that load and store in vectors, which they miss by 9.6 % in the root mean square; the
// others counted or guessed. No tile was held at the time, and stores took longer: tiles that are
// loaded again for each chunk take more since, by `rereads`.
#pragma once

namespace plumb::cuda {

struct PointwiseTable {
  double products_per_clock = 954;  ///< fixed: FMAs of fp16 of a multiprocessor by mma.sync; fitted
  double l1_bytes_per_clock = 40.8;     ///< fixed: of x from L1; fitted
  double shared_bytes_per_clock = 128;  ///< fixed: of filters; counted
  double element_clocks = 4;  ///< fixed: of a warp's load of elements, in 16 sectors; counted
  double of_output = 0.093;   ///< fixed: clocks to store an output, in vectors; fitted
  double of_element = 1.5;    ///< fixed: likewise, one by one; from 9 times of planes of 7 by 7
  double of_batch = 50;       ///< fixed: clocks to issue a batch's 168 to 275 instructions; counted
  double issued_output = 0.03;  ///< fixed: clocks to issue those of an output; counted
  double latency = 322;         ///< fixed: clocks from a load to its value; fitted
  double busy_latency = 1400;   ///< fixed: the same where memory is busy; fitted
  double l1_bytes = 192 << 10;  ///< fixed: of a multiprocessor, with shared memory: 256 KB of sm_90
                                ///< but for what is lost to other lines; guessed
  double again_share = 4.34;    ///< fixed: of the nominal rate of memory, for x from L2; fitted
  double l2_bytes_per_clock = 16.7;  ///< fixed: of a multiprocessor's filters; fitted
  double read_share = 0.833;         ///< fixed: of the nominal rate of memory, for x; fitted
  double write_share = 0.677;        ///< fixed: of it, for y; fitted
  double rereads = 1.3;    ///< fixed: of the whole, where a warp loads tiles again: from 30 times
  double start = 0.21e-6;  ///< fixed: seconds until all blocks work; fitted
};

}  // namespace plumb::cuda
