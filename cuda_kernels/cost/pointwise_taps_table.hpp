// Costs of the kernel for few terms in pointwise/: counted or guessed, none timed yet. Clocks are
// of a multiprocessor.
#pragma once

namespace plumb::cuda {

struct PointwiseTapsTable {
  double products_per_clock = 954;  ///< fixed: FMAs of fp16 by mma.sync, as pointwise has
  double gathered = 6;     ///< fixed: clocks for a warp's load of elements, some six lines; guessed
  double of_load = 4;      ///< fixed: instructions of a load; counted
  double of_padded = 11;   ///< fixed: likewise, where a tap may be outside; counted
  double of_tile = 400;    ///< fixed: instructions of a warp for a tile; counted
  double of_chunk = 120;   ///< fixed: likewise for a chunk, beside its outputs; counted
  double of_output = 4.5;  ///< fixed: likewise for 32 outputs in f16; counted
  double issued = 3;       ///< fixed: instructions that four schedulers issue in a clock; guessed
  double of_element = 1.5;     ///< fixed: clocks to store an output by itself, as pointwise has
  double load_latency = 1400;  ///< fixed: clocks of a tile's loads, where memory is busy; guessed
  double chunk_latency = 500;  ///< fixed: clocks from a chunk's products to its stores; guessed
  double again_share = 4.34;   ///< fixed: of the nominal rate of memory, for x from L2
  double l2_bytes_per_clock = 16.7;  ///< fixed: of a block's filters, as pointwise has
  double read_share = 0.833;         ///< fixed: of the nominal rate of memory, for x
  double write_share = 0.677;        ///< fixed: of it, for y
  double start = 0.21e-6;            ///< fixed: seconds until all blocks work
};

}  // namespace plumb::cuda
