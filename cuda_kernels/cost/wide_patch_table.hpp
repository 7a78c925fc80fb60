// Costs of the kernel in wide_patch/ beside those that it has from wide/, fitted to the suite
// `wide` on one H100: fp16 in planes, TF32 with channels innermost and in planes. What is marked
// H200 is fitted to 155 times on one H200 together with wide's (wide_table.hpp), of layers of the
// suite and with strides, in FP16 and TF32: estimates missed them by 0.133 before (the root mean
// square of logarithms) and miss them by 0.106; by 0.109 those of an eighth of the problems, fitted
// to the others.
#pragma once

namespace plumb::cuda {

struct WidePatchTable {
  double l2_bytes_per_clock = 45;  ///< fixed: of a multiprocessor where all read
  double of_step = 14;             ///< fixed: clocks beside a step's products
  double of_tile = 5600;           ///< fixed: clocks beside its products and outputs
  double of_output = 0.06;         ///< fixed: clocks to store an output, of filters side by side
  double of_run_output = 0.19;     ///< fixed: of planes, in vectors; H200
  double of_plane_output = 0.5;    ///< fixed: of planes, one by one; H200
  double read_share = 2;           ///< fixed: of the nominal rate, for x besides the products
  double write_share = 1.87;       ///< fixed: of it, for y
  double slower = 1.17;            ///< fixed: what is measured over what the parts add up to
};

}  // namespace plumb::cuda
