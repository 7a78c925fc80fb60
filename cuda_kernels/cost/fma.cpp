#include "cuda_kernels/cost/fma.hpp"

#include <algorithm>

#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/cost/scattered.hpp"
#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {
namespace {

template <class T>
double number(T value) {
  return static_cast<double>(value);
}

/// A block's steps along the terms, and the operations of all blocks, with idle lanes counted.
struct GemmSteps {
  double of_block, issued_flop;

  GemmSteps(const ConvProblem& problem, const GemmTiles& tiles)
      : of_block(number(ceil_div(problem.terms(), tiles.side))),
        issued_flop(2.0 * number(tiles.count) * of_block * tiles.side * tiles.side * tiles.side) {}
};

double step_clocks(const FmaTable& costs, int side) {
  return side == 8    ? costs.gemm_step_clocks_8
         : side == 16 ? costs.gemm_step_clocks_16
                      : costs.gemm_step_clocks_32;
}

/// Returns the share of the rate of FMAs that is reached. The count is in clocks of a
/// multiprocessor for one warp's step of `side` terms. Shared memory answers one request of a warp
/// in a clock: one request for each element of x and one for four of w. Four instructions start in
/// a clock: the requests, the FMAs, and index arithmetic and barriers (`besides`).
double fma_share(int side, double besides) {
  const double requests = 1.25 * side, instructions = 2.25 * side + besides;
  return side / 4.0 / std::max(requests, instructions / 4);
}

}  // namespace

double direct_seconds(const ConvProblem& problem, const DeviceInfo& device,
                      Accumulator accumulator) {
  const FmaTable& costs = cost_tables().fma;
  return output_a_thread_seconds(problem, device,
                                 {.issued_flop = problem.flop(),
                                  .share = 1 / costs.direct_divisor,
                                  .term_clocks = costs.direct_term_clocks,
                                  .accumulator = accumulator}) +
         scattered_seconds(problem, Machine(device), 1);
}

double direct_unrolled_seconds(const ConvProblem& problem, const DeviceInfo& device,
                               UnrolledTaps unrolled) {
  const FmaTable& costs = cost_tables().fma;
  if (unrolled == UnrolledTaps::none) return direct_seconds(problem, device, Accumulator::fp32_fma);
  const bool both = unrolled == UnrolledTaps::both;
  // Warps at the edge of a padded image go through both loops.
  const double of_edge = problem.padding != Padding{} ? costs.direct_term_clocks : 0;
  // Where columns alone are unrolled, the first term of each row costs what it costs in a loop.
  const double of_loop = both ? 0 : 1 / static_cast<double>(problem.s);
  const auto mixed = [&](double unrolled_cost, double loop_cost) {
    return unrolled_cost + of_loop * (loop_cost - unrolled_cost);
  };
  const double made = output_a_thread_seconds(
      problem, device,
      {.issued_flop = problem.flop(),
       .share = 1 / mixed(both ? costs.both_divisor : costs.columns_divisor, costs.direct_divisor),
       .term_clocks = of_edge + mixed(both ? costs.both_term_clocks : costs.columns_term_clocks,
                                      costs.direct_term_clocks)});
  return made + scattered_seconds(problem, Machine(device), 1);
}

double implicit_gemm_seconds(const ConvProblem& problem, const DeviceInfo& device,
                             Accumulator accumulator, const GemmTiles& tiles) {
  const FmaTable& costs = cost_tables().fma;
  const GemmSteps steps(problem, tiles);
  const double reached = tiles.side == 32 ? costs.implicit_reached_32 : costs.implicit_reached;
  const double share = reached * fma_share(tiles.side, costs.implicit_instructions);
  // Blocks multiply first, and then write.
  const double full = summed({model_seconds(problem, device, accumulator, steps.issued_flop, share),
                              costs.gemm_moving * moving_seconds(problem, device, 1)},
                             cost_tables().kernel.turn_norm);
  // A warp has as many pixels as a tile's side, each of as many filters as are left of 32.
  return kernel_seconds(full + scattered_seconds(problem, Machine(device), 32.0 / tiles.side),
                        device, steps.of_block * step_clocks(costs, tiles.side));
}

double im2col_gemm_seconds(const ConvProblem& problem, const DeviceInfo& device,
                           const GemmTiles& tiles, double unrolled_bytes) {
  const FmaTable& costs = cost_tables().fma;
  const GemmSteps steps(problem, tiles);
  const double share = costs.im2col_reached * fma_share(tiles.side, costs.im2col_instructions);
  // One kernel writes the matrix; the next reads it, and takes as long as that of implicit_gemm.
  const double unrolling =
      kernel_seconds(Machine(device).moving_seconds(2 * unrolled_bytes), device, 0);
  return unrolling + kernel_seconds(model_seconds(problem, device, Accumulator::fp32_fma,
                                                  steps.issued_flop, share),
                                    device, steps.of_block * step_clocks(costs, tiles.side));
}

double register_tile_seconds(const ConvProblem& problem, const DeviceInfo& device,
                             const RegisterTile& of) {
  const FmaTable& costs = cost_tables().fma;
  const BandTile& tile = of.tile;
  const UnitTile& thread = tile.unit;
  const double block_warps = number(ceil_div(tile.units(), 32));
  const double warps = number(of.blocks) * block_warps;
  const double channels = number(problem.c / problem.groups);
  const double rows = channels * number(problem.r), s = number(problem.s);  // of a filter

  // A row of the filters takes FMAs, reads of the input and of the filters, and other instructions.
  // Filters without a kernel of their own read the values of each tap anew.
  const double x_rows = thread.images * thread.rows, columns = thread.columns;
  const double outputs = x_rows * columns * thread.filters;
  const double w_vectors = thread.filters % 4 == 0 ? thread.filters / 4 : thread.filters;
  const double x_vectors =
      number(ceil_div(thread.columns + problem.s - 1, std::int64_t{thread.columns}));
  const double x_reads = x_rows * (of.whole_rows ? x_vectors : columns * s);
  const double row = outputs * s + x_reads + (w_vectors + (of.whole_rows ? 1 : 8)) * s + 4;
  const double tap_waves = 2 * number(std::min<std::int64_t>(problem.stride.w, 4));
  const double row_waves = x_reads * (of.whole_rows ? columns : tap_waves) + w_vectors * s;
  // A block takes the loads of the input by each warp, the loads of the filters where they do not
  // stay, and a prologue and an epilogue.
  const double x_loads =
      costs.register_load_wait * number(tile.images * thread.images * tile.x_rows) * channels *
      (costs.register_load_row + costs.register_load_columns * number(ceil_div(tile.pitch, 32)));
  const bool stay = tile.channels == problem.c / problem.groups;
  const double w_loads = stay ? 0 : rows * s * number(tile.filters * thread.filters) / 32 * 6;
  const double around = (x_loads + w_loads) / block_warps + costs.register_around + 6 * outputs;
  const double issuing = model_seconds(problem, device,
                                       {.instructions = 32 * warps * (rows * row + around),
                                        .shared_waves = warps * rows * row_waves});
  const int y_vector = row_vector(nullptr, problem.y_extents(), problem.y_strides, sizeof(float));
  // Blocks load, multiply and write in turn. Rows of few outputs take longer than rows of many.
  const double full = (issuing + moving_seconds(problem, device, y_vector)) *
                      (1 + costs.register_row_end / number(problem.q()));
  const double waited =
      rows * (costs.register_row_clocks + (of.whole_rows ? 0 : costs.register_tap_clocks * s));
  return kernel_seconds(full + scattered_seconds(problem, Machine(device), 1), device,
                        waited + costs.register_instruction_clocks * (rows * row + around));
}

double few_terms_seconds(const ConvProblem& problem, const DeviceInfo& device, const FewTerms& of) {
  const double k = number(problem.k), fours = of.filter_pitch / 4;
  // A filter takes FMAs, bias and ReLU, reads of weights, and writes; the prologue comes before
  // them.
  const double filter =
      (of.terms + 2) * of.makes + fours + (of.lines ? 4 * of.writes + 14 : 3 * of.reads + 4);
  const double padding = problem.padding == Padding{} ? 0 : 6 * number(problem.r + problem.s);
  const double before = of.reads * (30 + 11 * of.terms + padding) + 40;
  const double issuing =
      model_seconds(problem, device,
                    {.instructions = of.threads * (k * filter + number(of.shares) * before),
                     .shared_waves = of.threads / 32 * k * fours});
  // Planes that are written pixel by pixel cost as much as if each filled its last sector of
  // memory.
  constexpr double sector_pixels = 32 / sizeof(float);
  const double filled =
      of.lines || of.vector > 1 ? 1 : 1 + (sector_pixels - 1) / number(of.image_pixels);
  const double moving = filled * moving_seconds(problem, device, of.lines ? 4 : of.vector);
  const FmaTable& costs = cost_tables().fma;
  const double latency =
      costs.few_terms_instruction_clocks * (before + number(of.share_filters) * filter);
  // A grid of few waves of blocks ends in a wave that is not full.
  const double waves = of.terms > 16 ? costs.few_terms_tail_many : costs.few_terms_tail;
  const double tail = waves * latency / Machine(device).clock_hertz;
  const double scattered = scattered_seconds(problem, Machine(device), 1);
  return kernel_seconds(std::max(issuing, moving) + scattered + tail, device, latency);
}

IssuedWork few_filters_work(const ConvProblem& problem, const FewFilters& of) {
  const double r = number(problem.r), channels = number(problem.c);
  // A row of the filters takes FMAs, reads of input with their addresses, and reads of weights.
  const double outputs = of.filters * of.rows * of.columns;
  const double x_reads = of.x_fours, w_reads = of.filters * of.w_pitch / 4;
  const double filter_row = outputs * of.width + 3 * x_reads + w_reads + 4;
  const double reads = (r + of.rows - 1) * x_reads;
  const double copies = number(of.x_rows) * of.x_pitch / of.block_threads * (of.aligned ? 4 : 8);
  const double filter_copies = r * of.filters * of.w_pitch / of.block_threads * 12;
  const double channel = r * filter_row + 3 * (of.rows - 1) * x_reads + copies + filter_copies;
  const double threads = of.blocks * of.block_threads;
  const double around = 8 * outputs + cost_tables().fma.few_filters_around;
  return {.instructions = threads * (channels * channel + around),
          .shared_waves = threads / 32 * (channels * (4 * reads + r * w_reads) + 2 * outputs)};
}

double few_filters_seconds(const ConvProblem& problem, const DeviceInfo& device,
                           const FewFilters& of, int y_vector) {
  const FmaTable& costs = cost_tables().fma;
  const IssuedWork work = few_filters_work(problem, of);
  const double of_thread = work.instructions / (of.blocks * of.block_threads);
  // Rows of a tile that begin or end within a sector of memory are completed late.
  const double run = number(std::min<std::int64_t>(of.tile_columns, problem.q()));
  const double late = y_vector == 4 ? 0 : costs.few_filters_late_outputs / run;
  // Tall tiles read and write pieces of the image's rows that are shorter than a line of memory.
  constexpr double line_elements = 128 / sizeof(float);
  const double lines = run < number(problem.q()) ? std::max(1.0, line_elements / run) : 1;
  const double moving = lines * moving_seconds(problem, device, 4, 1 + late);
  const double issuing =
      (problem.c > 1 ? costs.few_filters_channels : 1) * model_seconds(problem, device, work);
  return kernel_seconds(std::max(issuing, moving) + scattered_seconds(problem, Machine(device), 1),
                        device, costs.few_filters_instruction_clocks * of_thread);
}

}  // namespace plumb::cuda
