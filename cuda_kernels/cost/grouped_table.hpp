// Costs of the kernel in grouped/: counted in its machine code (sm_90a, CUDA 13.0), taken over from
// sisters, or fitted to 123 times of one H200: eight layers in f16 and f32, NHWC and NCHW, with
// bands and without, and 36 cuts of one of them (docs/kernels/grouped.md).
#pragma once

namespace plumb::cuda {

struct GroupedTable {
  double product = 1.67;    ///< fixed: clocks of an mma.sync of 16x8x16, of all pipes, as wide_mma
  double issued = 0.396;    ///< fixed: fitted, share of issue slots that are used
  double waves = 0.662;     ///< fixed: fitted, the same of wavefronts of shared memory
  double of_work = 80;      ///< fixed: instructions of a warp around a work's steps; counted
  double of_step = 5;       ///< fixed: the same around a step's products and loads; counted
  double of_load = 2;       ///< fixed: of a fragment of x; counted
  double of_fragment = 22;  ///< fixed: to round and stage 16x8 outputs; counted
  double place = 39;        ///< fixed: of a thread, to find where an output lies; counted
  double unit = 24;         ///< fixed: of a thread, to copy 16 bytes of a pixel; counted
  double rounded = 34;      ///< fixed: fitted, the same besides, to round 16 bytes of f32 to TF32
  double run = 100;         ///< fixed: of a thread, to load the runs of eight channels; counted
  double run_pixel = 24;    ///< fixed: likewise, for each pixel of them; counted
  double vector = 10;       ///< fixed: of a thread, to write a vector of outputs; counted
  double step_wait = 6.6;   ///< fixed: fitted, clocks of a step's loads and products of one warp
  double turn = 4.8;        ///< fixed: fitted, clocks of a warp from an instruction to the next
  double begin = 2250;      ///< fixed: fitted, clocks until x under a tile is there
  double end = 100;         ///< fixed: fitted, clocks until a work's outputs are written
  double l2_bytes_per_clock = 30;  ///< fixed: of a multiprocessor's filters; guessed
  double read_share = 0.9;         ///< fixed: fitted, of the nominal rate of memory
  double write_share = 0.9;        ///< fixed: likewise
  double again_share = 2;          ///< fixed: the same of the halo, from L2; guessed
  double line_bytes = 16;  ///< fixed: that moving what lies side by side costs besides; guessed
  double overlap = 2.08;   ///< fixed: fitted, norm that adds moving and all else, where there are
                           ///< three blocks
  double depthwise = 1.2;  ///< free: of groups of one channel, over others; 4 layers, one H200
  double start = 0.67e-6;  ///< fixed: seconds until all blocks work, as wide has
};

}  // namespace plumb::cuda
