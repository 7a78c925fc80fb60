// Costs of the kernel in wide/. None has been fitted: no record has its times yet.
#pragma once

namespace plumb::cuda {

struct WideTable {
  double products_per_clock = 2048;  ///< fixed: FMAs of a multiprocessor's tensor cores, counted
  double l2_bytes_per_clock = 38;    ///< fixed: guessed, of a multiprocessor where all read
  double of_step = 24;               ///< fixed: guessed, clocks beside a step's products
  double of_tile = 900;     ///< fixed: guessed, clocks of the first loads and the last sums
  double of_row = 0.05;     ///< fixed: guessed, clocks to store an output
  double sums_share = 0.6;  ///< fixed: guessed, of the nominal rate, for sums of splits
};

}  // namespace plumb::cuda
