// Costs of the kernel in wide/. What its parts cost is counted or guessed; the whole is held
// against the sweep of one H100 (docs/results/2026-11-25-h100-wide.json).
#pragma once

namespace plumb::cuda {

struct WideTable {
  double products_per_clock = 2048;  ///< fixed: FMAs of a multiprocessor's tensor cores, counted
  double l2_bytes_per_clock = 38;    ///< fixed: guessed, of a multiprocessor where all read
  double of_step = 24;               ///< fixed: guessed, clocks beside a step's products
  double of_tile = 900;          ///< fixed: guessed, clocks of the first loads and the last sums
  double of_row = 0.05;          ///< fixed: guessed, clocks to store an output
  double sums_share = 0.6;       ///< fixed: guessed, of the nominal rate, for sums of splits
  double repacking_share = 0.6;  ///< fixed: guessed, of the nominal rate, for repacking x
  double slower = 1.2;           ///< fixed: what is measured over what the parts add up to
  double start = 6e-6;  ///< fixed: seconds until all blocks work, and from the first end on
};

}  // namespace plumb::cuda
