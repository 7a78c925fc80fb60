// Costs of the kernel in wide_patch/ beside those that it has from wide/. What a step costs is
// fitted to the suite `wide` on one H100: fp16 in planes, TF32 with channels innermost and in
// planes. What is marked H200 is fitted to 155 times on one H200 together with wide's
// (wide_table.hpp), of layers of the suite and with strides, in FP16 and TF32: the estimate missed
// them by 0.133 (the root mean square of logarithms) before, and misses them by 0.097, by 0.102
// those that an eighth of the problems has where the fit is to the others.
#pragma once

namespace plumb::cuda {

struct WidePatchTable {
  double l2_bytes_per_clock = 45;  ///< fixed: of a multiprocessor where all read
  double of_step = 14;             ///< fixed: clocks beside a step's products
  double of_tile = 4140;           ///< fixed: clocks beside its products and outputs; H200
  double of_output = 0.06;         ///< fixed: clocks to store an output, of filters side by side
  double of_run_output = 0.181;    ///< fixed: of planes, in vectors; H200
  double of_plane_output = 0.515;  ///< fixed: of planes, one by one; H200
  double read_share = 2;           ///< fixed: of the nominal rate, for x besides the products
  double write_share = 0.858;      ///< fixed: of it, for y; H200
  double slower = 1.17;            ///< fixed: what is measured over what the parts add up to
};

}  // namespace plumb::cuda
