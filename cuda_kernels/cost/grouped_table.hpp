// Costs of the kernel in grouped/: counted in its machine code (sm_90a, CUDA 13.0), taken over from
// sisters, or guessed; fitted to no time (docs/kernels/grouped.md has those of one H200).
#pragma once

namespace plumb::cuda {

struct GroupedTable {
  double product = 1.67;  ///< fixed: clocks of an mma.sync of 16x8x16, of all pipes, as wide_mma
  double issued = 0.6;    ///< fixed: share of issue slots that are used, as depthwise_toeplitz has
  double waves = 0.8;     ///< fixed: the same of wavefronts of shared memory; guessed
  double of_work = 80;    ///< fixed: instructions of a warp around a work's steps; counted
  double of_step = 5;     ///< fixed: the same around a step's products and loads; counted
  double of_load = 2;     ///< fixed: of a fragment of x; counted
  double of_fragment = 22;  ///< fixed: to round and stage 16x8 outputs; counted
  double place = 39;        ///< fixed: of a thread, to find where an output lies; counted
  double unit = 24;         ///< fixed: of a thread, to copy 16 bytes of a pixel; counted
  double run = 100;         ///< fixed: of a thread, to load the runs of eight channels; counted
  double run_pixel = 24;    ///< fixed: likewise, for each pixel of them; counted
  double vector = 10;       ///< fixed: of a thread, to write a vector of outputs; counted
  double step_wait = 80;    ///< fixed: clocks of a step's loads and products of one warp; guessed
  double begin = 1500;      ///< fixed: clocks until x under a tile is there; guessed
  double end = 600;         ///< fixed: clocks until a work's outputs are written; guessed
  double l2_bytes_per_clock = 30;  ///< fixed: of a multiprocessor's filters; guessed
  double read_share = 0.833;       ///< fixed: of the nominal rate of memory, as pointwise has
  double write_share = 0.677;      ///< fixed: likewise
  double again_share = 2;          ///< fixed: the same of the halo, from L2; guessed
  double line_bytes = 16;  ///< fixed: that moving what lies side by side costs besides; guessed
  double overlap = 3;      ///< fixed: norm that adds moving and all else, where there are
                           ///< three blocks; guessed
  double depthwise = 1.2;  ///< free: of groups of one channel, over others; 4 layers, one H200
  double start = 0.67e-6;  ///< fixed: seconds until all blocks work, as wide has
};

}  // namespace plumb::cuda
