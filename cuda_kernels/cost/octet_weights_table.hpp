// Costs of the kernel in octet_weights/ beside those that it has from few_weights/: counted from
// its instructions, or guessed; the sum of all of them that was measured.
#pragma once

namespace plumb::cuda {

struct OctetWeightsTable {
  double fma_clock = 2048;  ///< fixed: of fp16 in a clock of a multiprocessor, by wgmma
  double extremes = 2.5;    ///< fixed: counted, instructions to look at an element's magnitude
  double octet = 58;        ///< fixed: counted, to make an octet of halves
  double few_warps = 2;  ///< fixed: guessed, of eight warps: clocks over those of the issue slots
  double of_pass = 150;  ///< fixed: guessed, clocks until a tile's products are there
  double bytes_clock = 24;  ///< fixed: guessed, of L2 and memory, of a multiprocessor
  double measured = 2.3;    ///< free: the geometric mean of 29 times on one H200, 1.5 to 3.1
};

}  // namespace plumb::cuda
