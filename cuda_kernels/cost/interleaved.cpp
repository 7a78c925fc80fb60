#include "cuda_kernels/cost/interleaved.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/kernel_model.hpp"
#include "cuda_kernels/cost/scattered.hpp"
#include "cuda_kernels/cost/tables.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"

namespace plumb::cuda {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

const InterleavedRates& interleaved_rates(const InterleavedElements& elements) {
  const InterleavedTable& table = cost_tables().interleaved;
  return elements.parts == 2 ? table.split : elements.stored_bytes == 2 ? table.half : table.scaled;
}

double core_row_share(const ChannelBlock& of, const InterleavedElements& elements) {
  const InterleavedRates& rates = interleaved_rates(elements);
  const int taps = of.taps_h * of.taps_w;
  // A warp asks for neighbouring taps together.
  const double asked = of.taps_w > 1 ? cost_tables().interleaved.taps_asked * taps : taps;
  return 1 + rates.element_share * (of.channels * taps - 8) + rates.tap_share * (asked - 1);
}

InterleavedModel::InterleavedModel(const ConvProblem& problem, const DeviceInfo& device,
                                   const InterleavedLayout& layout,
                                   const InterleavedElements& elements)
    : problem_(problem),
      layout_(layout),
      elements_(elements),
      machine_(device),
      table_(cost_tables().interleaved),
      rates_(interleaved_rates(elements)),
      clocks_per_second_(table_.clock_share * machine_.clock_hertz),
      filters_(number(std::min<std::int64_t>(problem.k, layout.different_filters()))) {
  for (const PhasePlane& of : layout.phase_planes)
    phase_plane_shares_ += core_row_share(layout.channel_blocks[of.channel_block], elements);
}

double InterleavedModel::seconds(const InterleavedTiles& tile) const {
  // Lanes have neighbouring columns of one filter, or whole sectors of a pixel's filters.
  const double scattered =
      layout_.stores_pixels(problem_) ? 0 : scattered_seconds(problem_, machine_, 1);
  return clocks(tile) * rounds(tile) / clocks_per_second_ + scattered;
}

double InterleavedModel::load_seconds(const InterleavedTiles& tile) const {
  return producer_clocks(tile) / clocks_per_second_;
}

double InterleavedModel::rounds(const InterleavedTiles& tile) const {
  const double items = number(tile.items(problem_)) * layout_.groups / machine_.units;
  return std::max(items + 0.5, std::ceil(items));
}

double InterleavedModel::producer_clocks(const InterleavedTiles& tile) const {
  // Where filters stream, one of the producer warps loads them.
  return phase_plane_shares_ * tile.phase_plane_core_rows() *
             (tile.streams() ? rates_.of_row_beside_stream : rates_.of_row) +
         rates_.of_channel_block * static_cast<double>(layout_.channel_blocks.size());
}

double InterleavedModel::consumer_clocks(const InterleavedTiles& tile, double passes) const {
  return passes * (rates_.of_step * layout_.k_steps +
                   (tile.streams() ? rates_.of_k_tile * tile.k_tiles : 0));
}

double InterleavedModel::epilogue_clocks(const InterleavedTiles& tile, double passes) const {
  // Pairs of outputs are stored at once, and vectors, which take as many instructions. The outputs
  // of two columns take the most when stored one by one: the kernel finds their places twice.
  const bool at_once = layout_.stores_pixels(problem_) || tile.pairs(layout_, problem_);
  const double share = at_once               ? table_.store_pairs
                       : layout_.columns > 1 ? 1 + 1. / elements_.stored_bytes
                                             : 1;
  // A warp stores every fourth filter: storing takes as long as the warp with the most filters
  // takes.
  const double of_warp = layout_.spread > 1 ? 1 : interleaved_epilogue_warps;
  const double of_fullest = std::ceil(filters_ / of_warp) * of_warp / layout_.different_filters();
  return rates_.of_pass * passes * share *
         (table_.store_fixed + (1 - table_.store_fixed) * of_fullest);
}

double InterleavedModel::moving_clocks(const InterleavedTiles& tile) const {
  if (machine_.bytes_per_second <= 0) return 0;
  const bool whole_rows = tile.column_tiles == 1;
  const double written_run =
      whole_rows ? interleaved_columns : std::min(tile.columns, interleaved_columns);
  const double read_run = whole_rows ? 256 : tile.pitch * layout_.stride_w;
  const double written = number(tile.images) * tile.rows * layout_.rows * tile.columns *
                         layout_.position_columns() * filters_;
  const double read = number(tile.phase_plane_core_rows()) * number(problem_.c) * layout_.stride_h *
                      layout_.stride_w;
  const double sectors = problem_.q() % 8 != 0 ? table_.part_sectors : 1;
  // Planes smaller than a sector are completed late.
  const std::int64_t plane = problem_.p() * problem_.q();
  const bool in_pieces = plane * elements_.stored_bytes < memory_sector_bytes;
  const double pieces = in_pieces ? written / number(plane) : 0;
  const double elements = written * sectors * (1 + table_.run_written / written_run) +
                          read * (1 + table_.run_read / read_run);
  // All multiprocessors share the memory.
  const double clocks_of_byte =
      clocks_per_second_ * machine_.units / (table_.bandwidth_share * machine_.bytes_per_second);
  return clocks_of_byte * (elements_.stored_bytes * elements + table_.piece_bytes * pieces);
}

double InterleavedModel::clocks(const InterleavedTiles& tile) const {
  const double passes = number(tile.passes());
  // Input is handed over chunk by chunk, outputs when all of them are summed.
  const double chunks = layout_.chunks;
  return summed({chunks * consumer_clocks(tile, passes), chunks * producer_clocks(tile),
                 epilogue_clocks(tile, passes), moving_clocks(tile)},
                table_.together) +
         chunks * table_.clocks_of_tile;
}

double interleaved_seconds(const ConvProblem& problem, const InterleavedElements& elements,
                           int chunks, double first_load, double predicted) {
  const InterleavedTable& table = cost_tables().interleaved;
  const bool of_family = problem.c <= 16 && problem.k <= interleaved_rows && problem.r <= 11 &&
                         problem.s <= 11 && problem.stride.h <= 2 && problem.stride.w <= 2;
  const InterleavedMargins& margins = elements.parts == 2          ? table.split_margins
                                      : elements.stored_bytes == 2 ? table.half_margins
                                                                   : table.scaled_margins;
  // Channels in chunks: 91 problems in three products took 0.95 of what is predicted in the
  // geometric mean on one H200, 0.74 to 1.42; others have not been timed.
  const double of_chunks = elements.parts == 2 ? 0.95 : 2;
  const double measured = of_family ? margins.family : margins.outside;
  return margins.before_seconds + margins.first_input * first_load +
         (chunks > 1 ? of_chunks : measured) * predicted;
}

}  // namespace plumb::cuda
