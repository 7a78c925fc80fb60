// Costs of the kernel for few terms in pointwise/: counted, and the four that are marked so fitted
// to 60 times of ten layers on one H200 (docs/results/2026-11-29-h200-pointwise-taps.json), which
// they miss by 0.17 (the root mean square of logarithms; before, guessed, by 0.44). Clocks are of a
// multiprocessor.
#pragma once

namespace plumb::cuda {

struct PointwiseTapsTable {
  double products_per_clock = 954;  ///< fixed: FMAs of fp16 by mma.sync, as pointwise has
  double gathered = 9;          ///< fitted: clocks for a warp's load of elements, some six lines
  double of_load = 4;           ///< fixed: instructions of a load; counted
  double of_padded = 11;        ///< fixed: likewise, where a tap may be outside; counted
  double of_tile = 400;         ///< fixed: instructions of a warp for a tile; counted
  double of_chunk = 120;        ///< fixed: likewise for a chunk, beside its outputs; counted
  double of_output = 4.5;       ///< fixed: likewise for 32 outputs in f16; counted
  double issued = 2.6;          ///< fitted: instructions that four schedulers issue in a clock
  double of_element = 1.5;      ///< fixed: clocks to store an output by itself, as pointwise has
  double load_latency = 1400;   ///< fixed: clocks of a tile's loads, where memory is busy; guessed
  double chunk_latency = 2700;  ///< fitted: clocks from a chunk's products to its stores
  double latency_norm = 1.9;    ///< fitted: how what takes turns and what waits add up
  double again_share = 4.34;    ///< fixed: of the nominal rate of memory, for x from L2
  double l2_bytes_per_clock = 16.7;  ///< fixed: of a block's filters, as pointwise has
  double read_share = 0.833;         ///< fixed: of the nominal rate of memory, for x
  double write_share = 0.677;        ///< fixed: of it, for y
  double start = 0.21e-6;            ///< fixed: seconds until all blocks work
};

}  // namespace plumb::cuda
