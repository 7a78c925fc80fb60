// Costs of the kernel in wide_patch/ beside those that it has from wide/: guesses, until it is
// timed.
#pragma once

namespace plumb::cuda {

struct WidePatchTable {
  double l2_bytes_per_clock = 45;  ///< fixed: of a multiprocessor where all read
  double of_step = 45;             ///< fixed: clocks beside a step's products, as in wide/
  double of_output = 0.1;          ///< fixed: clocks to store an output, of filters side by side
  double of_plane_output = 0.2;    ///< fixed: and of planes
};

}  // namespace plumb::cuda
