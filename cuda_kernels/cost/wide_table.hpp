// Costs of the kernel in wide/. What a step and a tile cost is fitted to the sweep of one H100
// (docs/results/2026-11-26-h100-wide.json): every tile of 18 layers in three arithmetics, channels
// innermost and in planes. `of_box` and `write_share` are fitted to 36 times of FP16 on one H200.
// What is marked H200 is fitted, together with the table of wide_patch/, to 308 times of wide and
// 155 of wide_patch on one: layers of the suite `wide` and others in FP16, TF32 and three products.
// Estimates missed wide's by 0.188 before (the root mean square of logarithms) and miss them by
// 0.108; by 0.115 those of an eighth of the problems, fitted to the others.
#pragma once

namespace plumb::cuda {

struct WideTable {
  double products_per_clock = 2048;  ///< fixed: FMAs of a multiprocessor's tensor cores, counted
  double l2_bytes_per_clock = 69;    ///< fixed: of a multiprocessor where all read
  double of_step = 45;               ///< fixed: clocks beside a step's products
  double of_tile = 566;              ///< fixed: clocks of the first loads and the last sums
  double of_across_tile = 2500;  ///< fixed: clocks besides where planes of two bytes are operands
  double of_row = 0.029;         ///< fixed: clocks to store an output
  double of_box = 0.004;         ///< fixed: the same where the copy engine stores it; H200
  double of_plane = 0.14;        ///< fixed: the same of pixels side by side; H200
  double of_element = 0.71;      ///< fixed: the same where outputs are stored singly; H200
  double of_scale = 0.71;        ///< fixed: clocks besides where operands were scaled; H200
  double read_share = 2.36;      ///< fixed: of the nominal rate, for x besides the products
  double write_share = 1.2;      ///< fixed: of it, for y; H200
  double slower = 1.17;          ///< fixed: what is measured over what the parts add up to
  double of_layers = 1.1;        ///< free: of layers, over tiles of the sweep; H200
  double depthwise = 1.2;        ///< fixed: of depthwise layers in NHWC, over that of dense ones
  double sums_share = 1.46;      ///< fixed: of the nominal rate, for sums of splits, in L2
  // Clocks of a multiprocessor for an element of x that is repacked, by the one kernel; by both
  // that look for its scale and split it; and of an axis that is folded. H200.
  double of_repacked_element = 0.275;  ///< fixed
  double of_split_element = 0.8;       ///< fixed
  double of_folded_element = 0.378;    ///< fixed
  double repacking_share = 1.6;        ///< fixed: of the nominal rate, for repacking x; H200
  // The same of planes, whose pixels are moved in vectors, and in those of 4 bytes: by 12
  // profiles on one H200 (docs/experiments/wide.md).
  double planes_share = 0.87;        ///< fixed
  double short_planes_share = 0.52;  ///< fixed
  double folding = 8.5e-6;           ///< fixed: seconds of a block that folds an axis; H200
  double start = 0.67e-6;            ///< fixed: seconds from the launch until all blocks work
  double next_kernel = 2.4e-6;       ///< fixed: seconds of one more kernel of the launch
  /// Fixed: bytes that a multiprocessor sends to others of its cluster in a clock. This and the
  /// next are counted, and not fitted yet.
  double cluster_bytes_per_clock = 24;
  double of_exchange = 1000;  ///< fixed: clocks until a cluster has met and sums have come
};

}  // namespace plumb::cuda
