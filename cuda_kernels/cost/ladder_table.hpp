// Costs of the kernels in ladder/. scripts/fit_costs rewrites the values; those marked `fixed` are
// counted from the code, or no record here determines them, and stay.
#pragma once

namespace plumb::cuda {

struct LadderTable {
  // An output a thread: what is reached of the FMA rate, as its reciprocal, and clocks from one
  // term to the next.
  double constant_divisor = 20;       ///< fixed: chosen only when forced
  double constant_term_clocks = 150;  ///< fixed: likewise
  double shared_divisor = 14.5;
  double shared_term_clocks = 35.7;
  // A thread of shared_tile for each channel, whose input is loaded between two barriers: clocks,
  // and terms that take as long.
  double shared_channel_clocks = 3750;
  double shared_channel_terms = 13;
  double shared_constant_divisor = 10;  ///< fixed: likewise
  double shared_copied_divisor = 13;    ///< fixed: likewise
  double half2_divisor = 17;            ///< fixed: likewise
  double scatter_divisor = 54;          ///< fixed: likewise, an addition in L2 for each lane
  // narrow_fragments: instructions of a warp's step and around its steps, for each n8 tile and
  // besides; what storing takes of the model for other kernels; clocks of a warp for an
  // instruction.
  double narrow_step = 69.3;
  double narrow_step_n8 = 43.8;
  double narrow_around = 429;
  double narrow_around_n8 = 218;
  double narrow_moving = 2.01;
  double narrow_instruction_clocks = 4.09;
  // index_reuse: instructions of a thread's step and around its steps; likewise; clocks of a step.
  double reuse_step = 112;
  double reuse_step_filter = 1.5;  ///< fixed: counted
  double reuse_around = 400;       ///< fixed: counted
  double reuse_measured = 1.61;
  double reuse_step_clocks_16 = 1290;
  double reuse_step_clocks_32 = 1560;
  // tensor_core: instructions for each element of the operands, and clocks of a step.
  double tensor_core_element = 53.2;
  double tensor_core_step_clocks_16 = 7090;
  double tensor_core_step_clocks_32 = 2830;
};

}  // namespace plumb::cuda
