// Costs of the kernel in depthwise_toeplitz/: counted in its machine code (sm_90a, CUDA 13.0), or
// fitted to 48 times on one H100.
#pragma once

namespace plumb::cuda {

struct DepthwiseToeplitzTable {
  double product = 1.12;       ///< fixed: fitted, clocks of an mma.sync of 16x8x16, of all pipes
  double half_product = 0.63;  ///< fixed: fitted, the same of 16x8x8
  double issued = 0.599;       ///< fixed: fitted, share of issue slots that are used
  double few_warps = 1.66;     ///< fixed: fitted, warps whose work is lost to waiting
  double zeros = 4;            ///< fixed: counted, instructions to write 16 bytes of zeros
  double row = 30;             ///< fixed: counted, instructions to find where a row lies
  double tap = 48;             ///< fixed: counted, instructions to copy a tap
  double table = 17;  ///< fixed: counted, instructions to find where an element of a plane lies
  double copied_vector = 10;   ///< fixed: counted, instructions to copy columns at once
  double copied_octet = 53;    ///< fixed: counted, instructions to load 8 elements of planes
  double copied_element = 11;  ///< fixed: counted, instructions to load an element
  double copied_pixels = 49;   ///< fixed: counted, instructions to load 8 channels of 2 columns
  double written_vector = 9;   ///< fixed: counted, instructions to write columns at once
  double written_octet = 35;   ///< fixed: counted, instructions to write 8 elements of planes
  double written_element = 8;  ///< fixed: counted, instructions to write an element
  double written_pixels = 34;  ///< fixed: counted, instructions to write 8 channels of 2 columns
  double of_tap_row = 13;      ///< fixed: counted, instructions of a warp around a row of taps
  double of_step = 4;          ///< fixed: counted, the same around a step of 16 columns
  double of_output = 7;        ///< fixed: counted, instructions to round and keep a pair of sums
  double of_block = 105;       ///< fixed: fitted, clocks of a multiprocessor to start a block
  double begin = 4198;         ///< fixed: fitted, clocks of a block's zeros, loads and barriers
  double step_wait = 96.3;     ///< fixed: fitted, clocks of a step's loads, and of its last product
  double end = 978;            ///< fixed: fitted, clocks until a block's last outputs are written
  double moved = 0.75;         ///< fixed: fitted, share of memory's nominal rate
  double again = 3.11;         ///< fixed: fitted, the same where input is read once more, from L2
  double half_sectors = 1.79;  ///< fixed: fitted, times that half a sector's other half is moved
  double overlap = 1.47;       ///< fixed: fitted, norm that adds moving and all else
};

}  // namespace plumb::cuda
