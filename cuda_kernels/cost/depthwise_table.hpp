// Costs of the kernels in depthwise/. Instructions around sums were counted in their machine code;
// scripts/fit_depthwise fits the others to the times of
// docs/results/2026-11-26-h200-depthwise.json.
#pragma once

namespace plumb::cuda {

struct DepthwiseTable {
  // Clocks of a thread beside others: before its first step, for input from memory, for a weight
  // that all threads of a block load in turn, and from an instruction to the next.
  double begin = 1450;
  double memory_wait = 370;
  double filter_wait = 170;
  double latency = 2.89;
  // Instructions of a step of a march, of a row of its taps, and to widen an element.
  double step = 87.2;
  double tap_row = 11.9;
  double converted = 11;
  double line = 0.963;    ///< clocks of a line of L1 or a wave of shared memory
  double in_turn = 1.32;  ///< what blocks take whose loads and sums take turns, over their sum
  double moved = 0.7;     ///< of the nominal rate of memory
  double written_again = 0.975;  ///< of it, for parts of sectors that L2 puts together
  // Of staged rows, fitted to the times of 5,600 cuts of 31 layers in four types on one H200
  // (docs/results/2026-11-29-h200-depthwise-staged.json), 11.5 % rms: as latency and moved, and
  // what moving takes more for each time that a piece goes into 64 bytes beyond half.
  double staged_latency = 2.15;  ///< fixed
  double staged_moved = 0.92;    ///< fixed
  double short_piece = 0.25;     ///< fixed
  double issued = 0.9;           ///< fixed: of the rate at which instructions start
};

}  // namespace plumb::cuda
