// Costs of the kernel in weights/: counted from its instructions, or guessed, and a factor over all
// of them that was measured.
#pragma once

namespace plumb::cuda {

struct WeightsTable {
  double of_step = 8;        ///< fixed: instructions beside a step's loads and FMAs, counted
  double reached = 1.12;     ///< fixed: guessed, clocks over those that the busiest pipe needs
  double conflicts = 1.25;   ///< fixed: guessed, wavefronts for a load of x by a warp
  double x_element = 12;     ///< fixed: instructions to copy an element of x, counted
  double dy_vector = 9;      ///< fixed: instructions to copy a vector of dy, counted
  double of_unit = 350;      ///< fixed: guessed, clocks of a block at a unit's two barriers
  double bytes_clock = 18;   ///< fixed: bytes of memory in a clock of a multiprocessor
  double enough_warps = 10;  ///< fixed: guessed, of a multiprocessor, to hide latencies
  double ends = 6000;        ///< fixed: guessed, clocks of a block's first load and last sums
  /// fixed: clocks of a multiprocessor for an element that is copied by itself, the geometric mean
  /// over the nine problems of that record with 1x1 and odd rows of dy, from 0.86 to 2.2
  double single_element = 1.37;
  /// fixed: the geometric mean over 128 problems on one H100, from 1.6 to 15
  /// (docs/results/2026-11-26-h100-weights.json)
  double measured = 3.3;
};

}  // namespace plumb::cuda
