// Costs of the kernels in streamed_filters/. Those above are fixed: tiles are chosen by them, and
// they were fitted to 5,200 tiles of 200 convolutions on one H200, where the records that
// scripts/fit_costs reads have one tile for each. It rewrites the values of those below.
#pragma once

namespace plumb::cuda {

struct StreamedFiltersTable {
  // Fixed:
  // What a multiprocessor does in a clock where nothing else holds it up: instructions of warps,
  // waves of shared memory, and bytes that come from L2.
  double issued_per_clock = 3.74;
  double waves_per_clock = 0.675;
  double bytes_per_clock = 15.5;
  // Clocks of four warps' product, for each n8 tile, but no less for few of them.
  double clocks_of_n8_tile = 3.56;
  double clocks_of_product = 11;
  // Instructions of warps: of a fragment, a product and a task; to store a row of an n8 tile, and
  // in fours; to load a warp of pairs, scaled or not.
  double issued_of_fragment = 62;
  double issued_of_product = 2.8;
  double issued_of_task = 42;
  double issued_to_store = 180;
  double issued_to_store_fours = 106;
  double issued_of_pair = 55;
  double issued_of_plain_pair = 22;
  // Clocks: from a fragment's reading to its products' end, where there is one at a time; of a
  // strip's begin and each of its k steps; from a k tile of filters to the next; of four rows of an
  // n8 tile that are stored together; of a tile; and of what a thread reads from memory at once.
  double clocks_of_fragment = 306;
  double clocks_of_strip = 543;
  double clocks_of_step = 214;
  double clocks_of_k_tile = 885;
  double clocks_to_store = 1585;
  double clocks_of_tile = 1710;
  double clocks_of_load = 880;
  double of_one_block = 1.147;  ///< as much time where no other block fills the gaps
  // Tiles that are copied and rounded in place: instructions of a row, of each element of a lane,
  // to scale and to round a warp of pairs, and the clocks until all is there.
  double copied_row = 55;
  double copied_element = 8.4;
  double copied_to_scale = 19;
  double copied_to_round = 9;
  double copied_clocks = 1780;
  // Bytes that a run of outputs costs whose last line of memory is completed later; and how much of
  // what is read again, from L2, counts as moved.
  double late_bytes = 47.6;
  double halo_share = 0.72;
  double bandwidth_share = 0.548;  ///< of the nominal rate of memory
  double launch_seconds = 2e-6;
  double pack_seconds = 3e-6;  ///< until the first block's filters have come
  // Free:
  // Where operands are scaled and split, more until the scale of the first tile is known: that, and
  // so much of what loading a tile takes.
  double scale_seconds = 2.1e-06;
  double scale_loads = 2.04;
  double piece_bytes = 37.2;  ///< of an output plane that is less than a memory sector
  // The time to expect where so much is predicted, of one scheme of arithmetic: seconds in the
  // place of launch and packing above, and a factor of the rest.
  double split_seconds = 4.13e-06;
  double tf32_seconds = 4.5e-06;
  double half_seconds = 3.39e-06;
  double split_measured = 0.993;
  double tf32_measured = 1;
  double half_measured = 0.971;
  double many_channels = 0.928;  ///< of more than 16, of which no tiles have been measured
};

}  // namespace plumb::cuda
