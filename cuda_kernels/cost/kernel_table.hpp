// Costs that several families share. scripts/fit_costs rewrites the values; those marked `fixed`
// have a meaning that no record here determines, and stay.
#pragma once

namespace plumb::cuda {

struct KernelTable {
  double launch_seconds = 3.5e-6;  ///< fixed: of a kernel, measured on one H200
  // The norm in which the time of a device that is full and the latency of one thread are summed,
  // and that of what threads that make an output each do in turn.
  double latency_norm = 1.89;
  double turn_norm = 0.913;
  // Of the nominal rate of memory: what reads reach, and writes of y in vectors of 4, 2 and 1
  // elements, where whole and begun sectors are written (filters of 1x1 over few channels).
  double read_share = 0.74;
  double write_share_4 = 0.718;
  double write_share_2 = 0.494;
  double write_share_1 = 0.378;
  // Threads that make an output each: x read again for each other filter, from L2, at so much of
  // the nominal rate of memory; and what comes before and after a sum, in terms of it.
  double l2_share = 1.83;
  double terms_around_sum = 8.77;
  // Of the rates of the data sheet, what kernels reach whose instructions have been counted.
  double issue_share = 0.723;
  double shared_share = 0.514;
  // Of a multiprocessor, for a part of a sector that is stored by itself: 7x7 of 3 channels to 64
  // innermost, by interleaved_half on one H100, in f16 4.1 and in f32 3.6.
  double sector_clocks = 3.8;  ///< fixed
  // The same for an element that a lane loads from a sector of its own: 1x1 of 64 channels
  // innermost to 2 over 512x512, on one H100, by narrow_fragments in f32 1.7 and in f16 1.5, by
  // streamed_filters 1.8.
  double gather_clocks = 1.7;  ///< fixed
};

}  // namespace plumb::cuda
