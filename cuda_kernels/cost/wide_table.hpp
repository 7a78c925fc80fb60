// Costs of the kernel in wide/, fitted to the sweep of one H100
// (docs/results/2026-11-26-h100-wide.json): every tile of 18 layers in four arithmetics.
#pragma once

namespace plumb::cuda {

struct WideTable {
  double products_per_clock = 2048;  ///< fixed: FMAs of a multiprocessor's tensor cores, counted
  double l2_bytes_per_clock = 69;    ///< fixed: of a multiprocessor where all read
  double of_step = 32;               ///< fixed: clocks beside a step's products
  double of_tile = 634;              ///< fixed: clocks of the first loads and the last sums
  double of_row = 0.0314;            ///< fixed: clocks to store an output
  double read_share = 2.26;          ///< fixed: of the nominal rate, for x besides the products
  double write_share = 0.96;         ///< fixed: of it, for y
  double slower = 1.17;              ///< fixed: what is measured over what the parts add up to
  double sums_share = 1.4;           ///< fixed: of the nominal rate, for sums of splits, in L2
  double repacking_share = 0.71;     ///< fixed: of the nominal rate, for repacking x
  double start = 0.8e-6;             ///< fixed: seconds from the launch until all blocks work
  double next_kernel = 2.1e-6;       ///< fixed: seconds of one more kernel of the launch
};

}  // namespace plumb::cuda
