// Costs of the kernel in depthwise_toeplitz/: counted in its machine code (sm_90a, CUDA 13.0), or
// guessed; none is measured.
#pragma once

namespace plumb::cuda {

struct DepthwiseToeplitzTable {
  double product = 1.6;         ///< fixed: guessed, clocks of an mma.sync of 16x8x16, of all pipes
  double half_product = 0.9;    ///< fixed: guessed, the same of 16x8x8
  double issued = 0.7;          ///< fixed: guessed, share of issue slots that are used
  double zeros = 4;             ///< fixed: counted, instructions to write 16 bytes of zeros
  double row = 40;              ///< fixed: counted, instructions to find where a row lies
  double tap = 48;              ///< fixed: counted, instructions to copy a tap
  double copied_vector = 26;    ///< fixed: counted, instructions to copy columns at once
  double copied_eight = 192;    ///< fixed: counted, instructions to load 8 elements of planes
  double copied_element = 40;   ///< fixed: counted, instructions to load an element
  double copied_pixels = 86;    ///< fixed: counted, instructions to load 8 channels of 2 columns
  double written_vector = 36;   ///< fixed: counted, instructions to write columns at once
  double written_eight = 193;   ///< fixed: counted, instructions to write 8 elements of planes
  double written_element = 45;  ///< fixed: counted, instructions to write an element
  double written_pixels = 94;   ///< fixed: counted, instructions to write 8 channels of 2 columns
  double of_tap_row = 13;       ///< fixed: counted, instructions of a warp around a row of taps
  double of_step = 4;           ///< fixed: counted, the same around a step of 16 columns
  double moved_half = 4;        ///< fixed: counted, moves of registers for every second tile
  double of_output = 10;        ///< fixed: counted, instructions to round and keep a pair of sums
  double of_block = 200;        ///< fixed: guessed, clocks of a multiprocessor to start a block
  double begin = 2600;          ///< fixed: guessed, clocks of a block's zeros, loads and barriers
  double step_wait = 66;  ///< fixed: guessed, clocks of a step's loads, and of its last product
  double end = 900;       ///< fixed: guessed, clocks until a block's last outputs are written
  double moved = 0.88;    ///< fixed: guessed, share of memory's nominal rate
  double again = 2.0;     ///< fixed: guessed, the same where input is read once more, from L2
};

}  // namespace plumb::cuda
