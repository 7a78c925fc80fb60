// Costs of the kernels in interleaved/. Those above are fixed: tiles and the layout of packed
// filters are chosen by them, and they were fitted to 1,761 tiles of 197 convolutions, measured one
// by one on one H200, and to few200 in two layouts of each. scripts/fit_costs rewrites the values
// of those below.
#pragma once

namespace plumb::cuda {

/// What a scheme of arithmetic takes, in clocks of a multiprocessor.
struct InterleavedRates {
  double of_step;                   ///< a k16 step's products for a pass
  double of_k_tile;                 ///< of filters that stream
  double of_row;                    ///< a 16-byte row loaded, of eight channels
  double of_row_beside_stream;      ///< likewise, where a producer warp less loads input
  double element_share, tap_share;  ///< of that: of each of its elements, and taps
  double of_channel_block;          ///< of a tile
  double of_pass;                   ///< stored
};

/// The time to expect where a model predicts so much.
struct InterleavedMargins {
  double before_seconds;  ///< until the first tile is multiplied
  double first_input;     ///< times that a tile's input takes where nothing is ahead of it
  double family;          ///< of the predicted time, for problems like those of few200
  double outside;         ///< likewise for others
};

struct InterleavedTable {
  // Fixed:
  InterleavedRates split{.of_step = 201,
                         .of_k_tile = 32,
                         .of_row = 4.9,
                         .of_row_beside_stream = 6.7,
                         .element_share = 0.087,
                         .tap_share = 0.055,
                         .of_channel_block = 910,
                         .of_pass = 2110};
  InterleavedRates half{.of_step = 83,
                        .of_k_tile = 0,
                        .of_row = 2.15,
                        .of_row_beside_stream = 2.4,
                        .element_share = 0.071,
                        .tap_share = 0.11,
                        .of_channel_block = 840,
                        .of_pass = 2080};
  InterleavedRates scaled{.of_step = 81,
                          .of_k_tile = 7,
                          .of_row = 3.1,
                          .of_row_beside_stream = 3.3,
                          .element_share = 0.08,
                          .tap_share = 0.076,
                          .of_channel_block = 1370,
                          .of_pass = 2150};
  double clock_share = 0.86;  ///< of the nominal clock, that tensor cores leave
  double taps_asked = 0.45;   ///< of taps of a 16-byte row that are neighbours, each
  // Storing: of pairs of outputs; and what does not depend on how many filters a warp has.
  double store_pairs = 0.75;
  double store_fixed = 0.4;
  // Memory: of the nominal rate; y whose rows are no whole sectors; elements that the begin of a
  // run of outputs and of input costs.
  double bandwidth_share = 1.09;
  double part_sectors = 1.25;
  double run_written = 24;
  double run_read = 12;
  double together = 2.55;  ///< fixed: the norm that overlapping roles are summed in
  double clocks_of_tile = 450;
  // Free:
  double piece_bytes = 60;  ///< of an output plane that is less than a memory sector
  InterleavedMargins split_margins{
      .before_seconds = 7.21e-06, .first_input = 3.47, .family = 0.968, .outside = 1.2};
  InterleavedMargins half_margins{
      .before_seconds = 3.84e-06, .first_input = 0.587, .family = 0.857, .outside = 0.886};
  InterleavedMargins scaled_margins{
      .before_seconds = 6.23e-06, .first_input = 2.76, .family = 0.95, .outside = 1.2};
};

}  // namespace plumb::cuda
