// Costs of the kernel in pointwise/: counted or guessed, and fitted to no time as yet.
#pragma once

namespace plumb::cuda {

struct PointwiseTable {
  // FMAs of fp16 of a multiprocessor by mma.sync: 0.6 of the 2,048 that wgmma has. Guessed.
  double products_per_clock = 1230;     ///< fixed
  double l1_bytes_per_clock = 64;       ///< fixed: of x from L1, half of what it has; guessed
  double shared_bytes_per_clock = 128;  ///< fixed: of filters; counted
  double element_clocks = 4;  ///< fixed: of a warp's load of elements, in 16 sectors; counted
  double of_output = 0.03;    ///< fixed: clocks to store an output, in vectors, as wide has
  double of_element = 0.55;   ///< fixed: likewise, one by one, as wide_patch has
  double of_batch = 50;       ///< fixed: clocks to issue a batch's 168 to 275 instructions; counted
  double issued_output = 0.03;  ///< fixed: clocks to issue those of an output; counted
  double latency = 800;         ///< fixed: clocks from a load to its value; guessed
  double busy_latency = 1500;   ///< fixed: the same where memory is busy; guessed
  double l1_bytes = 192 << 10;  ///< fixed: of a multiprocessor, with shared memory: 256 KB of sm_90
                                ///< but for what is lost to other lines; guessed
  double again_share = 1.6;     ///< fixed: of the nominal rate of memory, for x from L2; guessed
  double l2_bytes_per_clock = 45;  ///< fixed: of a multiprocessor's filters, as wide_patch has
  double read_share = 0.9;         ///< fixed: of the nominal rate of memory, for x; guessed
  double write_share = 0.85;       ///< fixed: of it, for y; guessed
  double start = 0.67e-6;          ///< fixed: seconds until all blocks work, as wide has
};

}  // namespace plumb::cuda
