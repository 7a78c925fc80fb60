// Costs of the kernels in few_channels/. Those above are fixed: tiles are chosen by them, and they
// were fitted to 4,700 tiles of eleven convolutions on one H200, where the records that
// scripts/fit_costs reads have one tile for each. It rewrites the values of those below.
#pragma once

namespace plumb::cuda {

struct FewChannelsTable {
  // Fixed:
  // What a multiprocessor does in a clock where nothing else holds it up: instructions of warps,
  // products of 16 x 8 pairs of registers by warps and by warp groups (a warp's share for eight
  // columns), and waves of shared memory.
  double issued_per_clock = 2.08;
  double steps_per_clock = 0.5674;
  double warpgroup_steps_per_clock = 0.9524;
  double waves_per_clock = 0.72;
  // Clocks: from an instruction to the next of the same warp; of a warp's task, of a tile, and of
  // what a thread reads from memory at once.
  double clocks_to_next = 1.88;
  double clocks_of_task = 20;
  double clocks_of_tile = 1200;
  double clocks_of_load = 985;
  double of_one_block = 1.18;     ///< as much time where no other block fills the gaps
  double bandwidth_share = 0.71;  ///< of the nominal rate of memory
  // Instructions of warps: to load a warp of pairs in fours or staged, a row and a turn of its
  // lanes, and to scale a warp of pairs; to store a fragment's outputs for an n8 tile, at a stride,
  // one by one or in pairs; of a task besides; and of a block's warp for a tile.
  double load_fours = 7.5;
  double load_staged = 21;
  double load_row = 40;
  double load_turn = 40;
  double load_scaled = 50;
  double store_strided = 34;
  double store_one_by_one = 70;
  double store_pairs = 26;
  double issued_of_task = 45;
  double issued_of_tile = 148;
  // Pieces of memory sectors take so many times as long as whole ones: those that L2 puts together,
  // for each sector that they lie in, and those that it has let go before, which more bytes of
  // outputs under way than L2 holds together are.
  double joined_pieces = 1.33;
  double lost_pieces = 3;
  double joined_bytes = 25e6;  ///< fixed: of an H200's L2
  double launch_seconds = 2e-6;
  double pack_seconds = 3e-6;  ///< until the first block's filters have come
  // Free:
  // The time to expect where so much is predicted, of one scheme of arithmetic: seconds in the
  // place of launch and packing above, and a factor of the rest; another of 8_rows, beyond
  // `tall_small_seconds`, and of one channel.
  double split_seconds = 6.11e-06;
  double tf32_seconds = 3.69e-06;
  double half_seconds = 3.81e-06;
  double scaled_seconds = 6.31e-06;
  double split_measured = 0.862;
  double tf32_measured = 1.03;
  double half_measured = 1.01;
  double scaled_measured = 0.926;
  double split_tall = 0.962;
  double tf32_tall = 1.01;
  double half_tall = 1.07;
  double scaled_tall = 0.948;
  double tall_one_channel = 0.966;
  double tall_small_seconds = 4.21e-05;
  double many_channels = 0.974;  ///< of more than 16, of which no tiles have been measured
};

}  // namespace plumb::cuda
