// Costs of the kernels in fma/. scripts/fit_costs rewrites the values; those marked `fixed` are
// counted from the code, or no record here determines them, and stay.
#pragma once

namespace plumb::cuda {

struct FmaTable {
  // direct, direct_unrolled: what is reached of the FMA rate, as its reciprocal, and clocks from
  // one term to the next of a thread: in a loop, with columns unrolled, and with both.
  double direct_divisor = 21.9;
  double direct_term_clocks = 176;
  double columns_divisor = 10.3;
  double columns_term_clocks = 47.8;
  double both_divisor = 10.1;
  double both_term_clocks = 58.7;
  // implicit_gemm, im2col_gemm: instructions of a warp's step besides those of its terms, what is
  // reached of the rate that they leave, and the clocks of a step where nothing else holds a block
  // up, by the tile's side.
  double implicit_instructions = 50;  ///< fixed: counted
  double im2col_instructions = 25;    ///< fixed: counted
  double implicit_reached = 0.588;
  double implicit_reached_32 = 0.366;
  double im2col_reached = 0.392;
  double gemm_moving = 1.72;  ///< of what moving takes elsewhere
  double gemm_step_clocks_8 = 1110;
  double gemm_step_clocks_16 = 1240;
  double gemm_step_clocks_32 = 2760;
  // register_tile: instructions for each row of input that a warp loads, and 32 columns of it; of a
  // thread around its sums; outputs of a row that take as long as what is lost at its end; clocks
  // of a thread for a row, for a tap that is read by itself, and for an instruction.
  double register_load_row = 24;     ///< fixed: counted
  double register_load_columns = 4;  ///< fixed: counted
  double register_load_wait = 2.39;  ///< of loads, over their instructions: warps wait for them
  double register_around = 118;
  double register_row_end = 0.498;
  double register_row_clocks = 159;
  double register_tap_clocks = 111;
  double register_instruction_clocks = 3.4;
  // few_terms: clocks of a thread for an instruction.
  double few_terms_instruction_clocks = 1.63;
  double few_terms_tail = 0.527;      ///< latencies of a thread that the last wave of blocks takes
  double few_terms_tail_many = 2.83;  ///< likewise of more than 16 terms, which few threads make
  // few_filters: instructions of a thread around its sums; clocks of a thread for an instruction;
  // outputs of a row that take as long as the sectors at its ends, which are completed later.
  double few_filters_around = 150;    ///< fixed: counted
  double few_filters_channels = 1.6;  ///< fixed: of several, over what is counted; two on one H100
  double few_filters_instruction_clocks = 4.94;
  double few_filters_late_outputs = 104;
};

}  // namespace plumb::cuda
