// Costs of the kernel in wide/, fitted to the sweep of one H100
// (docs/results/2026-11-26-h100-wide.json): every tile of 18 layers in three
// arithmetics, channels innermost and in planes. `of_halves` is the mean of 57 layers in planes;
// `of_box`, `of_plane`, `of_element` and `write_share` are fitted to 36 times of FP16 on one H200.
#pragma once

namespace plumb::cuda {

struct WideTable {
  double products_per_clock = 2048;  ///< fixed: FMAs of a multiprocessor's tensor cores, counted
  double l2_bytes_per_clock = 69;    ///< fixed: of a multiprocessor where all read
  double of_step = 45;               ///< fixed: clocks beside a step's products
  double of_tile = 566;              ///< fixed: clocks of the first loads and the last sums
  double of_across_tile = 2500;  ///< fixed: clocks besides where planes of two bytes are operands
  double of_row = 0.029;         ///< fixed: clocks to store an output
  double of_box = 0.004;         ///< fixed: the same where the copy engine stores it
  double of_plane = 0.2;         ///< fixed: the same of pixels side by side
  double of_element = 0.6;       ///< fixed: the same where outputs are stored singly
  double read_share = 2.36;      ///< fixed: of the nominal rate, for x besides the products
  double write_share = 1.2;      ///< fixed: of it, for y
  double planes_share = 2.5;     ///< fixed: of it, what y in planes takes besides
  double slower = 1.17;          ///< fixed: what is measured over what the parts add up to
  /// Free: by what layers of FP16 on one H200 took longer than this beside those of wide_patch/.
  double of_layers = 1.1;
  double of_halves = 1.29;       ///< fixed: of operands that were split in memory, over others
  double depthwise = 1.2;        ///< fixed: of depthwise layers in NHWC, over that of dense ones
  double sums_share = 1.46;      ///< fixed: of the nominal rate, for sums of splits, in L2
  double repacking_share = 0.7;  ///< fixed: of the nominal rate, for repacking x
  double start = 0.67e-6;        ///< fixed: seconds from the launch until all blocks work
  double next_kernel = 2.4e-6;   ///< fixed: seconds of one more kernel of the launch
  /// Fixed: bytes that a multiprocessor sends to others of its cluster in a clock. This and the
  /// next are counted, and not fitted yet.
  double cluster_bytes_per_clock = 24;
  double of_exchange = 1000;  ///< fixed: clocks until a cluster has met and sums have come
};

}  // namespace plumb::cuda
