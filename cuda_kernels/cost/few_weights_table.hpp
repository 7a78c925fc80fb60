// Costs of the kernel in few_weights/: counted from its instructions, or guessed, and a factor over
// all of them that was measured.
#pragma once

namespace plumb::cuda {

struct FewWeightsTable {
  double product = 1.6;     ///< fixed: guessed, clocks of an mma.sync of 16x8x16, of all pipes
  double of_step = 22;      ///< fixed: counted, a warp's instructions beside loads and products
  double waits = 75;        ///< fixed: guessed, clocks of a step's loads and products in turn
  double x_vector = 36;     ///< fixed: counted, instructions to copy elements of x at once
  double dy_vector = 36;    ///< fixed: counted, instructions to copy elements of dy at once
  double as_stored = 1.5;   ///< fixed: counted, instructions to write an operand's element
  double scaled = 7.5;      ///< fixed: counted, the same of f32, and to look at its magnitude
  double split = 3.4;       ///< fixed: counted, what the low half takes besides
  double hidden = 0.75;     ///< fixed: guessed, of the shorter of two things done at once
  double of_unit = 1100;    ///< fixed: guessed, clocks of a block at a unit's barriers
  double bytes_clock = 15;  ///< fixed: guessed, bytes of memory in a clock of a multiprocessor
  double measured = 2.45;   ///< free: the geometric mean of 29 times on one H200, 1.7 to 3.1
  double ends = 6000;       ///< fixed: guessed, clocks of a block's first load and last sums
};

}  // namespace plumb::cuda
