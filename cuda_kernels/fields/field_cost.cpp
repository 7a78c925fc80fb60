// The model of time that the planner of fields chooses by.
#include <algorithm>
#include <cmath>

#include "cuda_kernels/fields/field_cut.hpp"
#include "cuda_kernels/primitives/ceil_div.hpp"

namespace plumb::cuda {
namespace {

constexpr int shared_of_unit = 228 << 10, reserved = 1 << 10;
constexpr int barriers = 256;  // what the queue's blocks have besides for boxes, in bytes

int blocks_at_once(const FieldPlan& plan) {
  const int others = reserved + (plan.boxes ? barriers : 0);
  const int by_shared = shared_of_unit / (plan.shared_bytes + others);
  const FieldResidence most = residence(plan);
  const int by_registers = most.blocks * most.threads / plan.threads();
  return std::max(1, std::min(by_shared, by_registers));
}

double blocks(const FieldPlan& plan) {
  const FieldView& view = plan.view;
  return static_cast<double>(
      view.n * ceil_div(view.k, plan.filters) * ceil_div(view.u.outputs, plan.tile_u) *
      ceil_div(view.v.outputs, plan.tile_v) * ceil_div(view.w.outputs, plan.tile_w));
}

/// Clocks of a multiprocessor for a block of columns among as many as it holds. A warp's plane
/// takes what its instructions need to issue or its bytes to move, and of the smaller as much as
/// the warps are too few to hide; the factors are those of runs on an H200.
double column_clocks(const FieldPlan& plan, double bytes_in_clock, int warps) {
  const FieldView& view = plan.view;
  const int outputs = plan.outputs, bytes = plan.element_bytes;
  const double taps = static_cast<double>(view.w.taps) * view.c,
               of_plane = view.u.taps * view.v.taps;
  const double inputs = outputs + view.v.taps - 1, words = bytes / 4.0;
  const double added = taps * of_plane * outputs * words / 4;
  const double port = taps * (inputs * words + of_plane * words / 4) + outputs * words;
  double issued =
      taps * (of_plane * outputs + inputs + of_plane * words / 4) + outputs + 2 * inputs + 40;
  const double border = 1.1;  // reads there take more instructions
  // Filters of a width that nothing is compiled for: a tap's addresses are found as it comes.
  const bool compiled = column_taps(view.u.taps, view.v.taps, view.w.taps, outputs) > 0;
  if (!compiled && view.w.taps > 1) issued += 12 * taps;
  const double summed = std::max({added, port, border * issued / 4});
  const double moved = 32.0 * outputs * 2 * bytes / (0.9 * bytes_in_clock);
  const double warp_plane =
      std::max(summed, moved) + std::min(1.0, 10.5 / warps) * std::min(summed, moved);
  const double channels = view.c > 1 ? 1.35 : 1;  // each reads again, with little to hide it
  return channels * plan.threads() / 32.0 * (plan.tile_u + view.u.taps - 1) * warp_plane;
}

/// Whether threads put around the image what an axis' boundary shows there, where taps reach it.
bool is_patched(const FieldPlan& plan, const FieldAxis& axis) {
  return plan.boxes && axis.taps > 1 && axis.boundary != Boundary::zeros;
}

/// Returns the share of the queue's blocks that have something to put around the image.
double patched_share(const FieldPlan& plan) {
  const auto without = [&](const FieldAxis& axis, int tile) {
    const double tiles = static_cast<double>(ceil_div(axis.outputs, tile));
    return is_patched(plan, axis) ? std::max(0.0, tiles - 2) / tiles : 1;
  };
  return 1 - without(plan.view.v, plan.tile_v) * without(plan.view.w, plan.tile_w);
}

/// Bytes that a plane of a warp moves, as those of memory. What blocks load besides what lies under
/// their outputs comes from L2, which is three times as fast. Blocks side by side read the same of
/// it at about the same time; the more planes they have the less they keep in step, and the more of
/// it is read from memory again, the more so where some are held up by a boundary.
struct QueueBytes {
  double plane;  ///< by a plane above outputs
  double halo;   ///< by one that is there for the taps along u

  QueueBytes(const FieldPlan& plan, double outputs, double under, double besides) {
    constexpr double l2 = 3;
    const FieldView& view = plan.view;
    const bool held_up = view.v.boundary != Boundary::zeros || view.w.boundary != Boundary::zeros;
    const double out_of_step = std::min(1.0, plan.tile_u / (held_up ? 32.0 : 64.0));
    const double again = 1 / l2 + out_of_step * (1 - 1 / l2);
    plane = plan.element_bytes * (outputs + under + besides * again);
    halo = plan.element_bytes * (under + besides) / l2;
  }
};

/// Clocks of a multiprocessor for a block of the queue among as many as it holds: what its warps
/// issue, what goes through shared memory or what is moved, and of the others as much as the
/// warps are too few to hide.
double queue_clocks(const FieldPlan& plan, double bytes_in_clock, int warps) {
  const FieldView& view = plan.view;
  const QueueCut& cut = plan.queue;
  const int bytes = plan.element_bytes;
  const double vector = 16.0 / bytes, columns = queue_columns(plan);
  const int lead = plan.boxes ? queue_lead(cut.along_w(), bytes) : 0;
  const double segment = cut.vectors * (1 + std::ceil((lead + cut.along_w() - 1) / vector));
  const bool kept = cut.kept_rows > 0;
  const double weights = cut.taps * cut.along_w() * cut.filters / vector;
  const double fmas = columns * cut.rows * cut.filters * cut.taps * cut.along_w() * view.v.taps;
  const double inputs = segment * (kept ? cut.rows + cut.kept_rows - 1 : cut.rows * view.v.taps);
  const double read_weights = kept ? 0 : view.v.taps * weights;
  const double block_warps = plan.threads() / 32.0;
  const double of_row = 12 * cut.vectors + 2.5 * std::ceil(plan.columns / 32.0);
  const double copies = plan.boxes ? 0 : plan.rows * of_row / block_warps;
  // Each row of a filter that is not kept begins with reads that are waited for.
  const double rows = kept ? 0 : 20 * view.v.taps;
  // Another stage is waited for, and one thread loads what comes after it.
  const double stage = view.c > 1 ? 100.0 / plan.channels : 10;
  const double channel = fmas * bytes / 4 + inputs + read_weights + copies + rows + 15 + stage;
  const double stored = 2.0 * cut.filters * cut.rows * cut.vectors + 20;
  const double issued = (channel * view.c + stored) / std::min(4, warps);
  const double shared = (4 * inputs + read_weights + 2 * copies / 2.5) * view.c;
  const double inputs_under = 32 * columns * cut.rows * view.c;
  const double outputs = 32 * columns * cut.rows * cut.filters;
  const double besides = plan.channel_bytes / bytes / block_warps * view.c - inputs_under;
  const QueueBytes moved_by(plan, outputs, inputs_under, besides);
  const double planes = plan.tile_u + view.u.taps - 1;
  const double moved = (plan.tile_u * moved_by.plane + (view.u.taps - 1) * moved_by.halo) /
                       (planes * 0.9 * bytes_in_clock);
  // Three planes are on their way while one is summed, and memory answers after 900 clocks or so.
  const double waited = 300.0 / warps;
  const double most = std::max({issued / 0.92, shared / 0.9, moved, waited});
  const double rest = issued + shared + moved - most;
  // The copy engine needs no warps to be ahead of them.
  const double hidden_by = plan.boxes ? 1.5 : 3.0;
  const double warp_plane = most + std::min(1.0, hidden_by / warps) * std::max(0.0, rest);
  // Rows that do not begin at multiples of a vector are copied by elements.
  const bool aligned =
      view.w.x_step == 1 && view.v.x_step * bytes % 16 == 0 && view.u.x_step * bytes % 16 == 0;
  const double copied = aligned ? 1 : 1.4;
  // Of cuts with four filters or nine taps, as measured, each FMA waits longer for its registers.
  const double crowded = cut.filters == 4 || cut.taps >= 9 ? 1.2 : 1;
  return crowded * copied * block_warps * planes * warp_plane;
}

/// FMAs that a multiprocessor reaches in a clock with many of them, as measured on 31x31, 129
/// taps and 9x9x9 (README.md).
double fma_in_clock(const FieldPlan& plan) {
  const bool single = plan.element_bytes == 4;
  // With several filters an input serves as many FMAs, and more warps are there.
  if (plan.kernel == FieldKernel::line && plan.filters > 1) return single ? 80 : 42;
  if (plan.kernel == FieldKernel::line) return single ? 70 : 38;
  return single ? 85 : 43;
}

/// Clocks of a multiprocessor for a block of the others: what is added and what is moved, less of
/// the smaller as more warps are there to overlap them.
double tile_clocks(const FieldPlan& plan, double bytes_in_clock, int at_once) {
  const FieldView& view = plan.view;
  const double taps = static_cast<double>(view.u.taps) * view.v.taps * view.w.taps * view.c;
  const double outputs = static_cast<double>(plan.tile_u) * plan.tile_v * plan.tile_w;
  const double loaded = static_cast<double>(plan.planes) * plan.rows * plan.columns * view.c;
  // Overlapping halos come from L2, which is twice as fast as memory, and so does what another
  // block has loaded for other filters.
  const double passes = std::ceil(static_cast<double>(view.k) / plan.filters);
  const double under = outputs * view.c, again = loaded - under / passes;
  const double moved = plan.element_bytes * (outputs * plan.filters + under / passes + again / 2) /
                       (0.8 * bytes_in_clock);
  double added = outputs * plan.filters * taps / fma_in_clock(plan);
  // The tile takes as long as both together, as measured on 3x17, 11x11, 13x13 and 3x5x7.
  double hidden = plan.kernel == FieldKernel::tile ? 0 : 1 - 1.0 / at_once, enough = 12;
  if (plan.kernel == FieldKernel::toeplitz) {
    // Tensor cores have twice the FMAs, of which some are with the Toeplitz matrix' zeros. They
    // need fewer warps, and hide less of what is moved.
    added = outputs * taps / view.w.taps * 8 * plan.pairs / 100;
    hidden = std::min(hidden, 0.5), enough = 8;
  }
  const double few = std::max(1.0, enough / (at_once * plan.threads() / 32));
  return few * (std::max(moved, added) + (1 - hidden) * std::min(moved, added));
}

/// Clocks of the queue, whose blocks are all alike. A multiprocessor sums the share of them that
/// the busiest one has, as many at once as it holds, and the rest with fewer warps. It has less to
/// do while the last of them end, the less the longer they are.
double queue_time(const FieldPlan& plan, const FieldMachine& machine, int at_once, double start) {
  const double share = std::ceil(blocks(plan) / machine.units);
  const double rest = std::fmod(share, at_once), last = std::min<double>(share, at_once);
  // What is put around the image costs a plane a barrier and the wait for the next one.
  constexpr double patch = 600;
  const double patches = patch * patched_share(plan) * (plan.tile_u + plan.view.u.taps - 1);
  const auto clocks = [&](double together) {
    if (together == 0) return 0.0;
    const int warps = static_cast<int>(together) * plan.threads() / 32;
    return queue_clocks(plan, machine.bytes_in_clock, warps) + (start + patches) / together;
  };
  constexpr double ending = 0.08;
  return (share - rest) * clocks(at_once) + rest * clocks(rest) + ending * last * clocks(last);
}

}  // namespace

double field_clocks(const FieldPlan& plan, const FieldMachine& machine) {
  const double start = 1500.0;  // until the first input is there, in clocks of one block
  const int at_once = blocks_at_once(plan), warps = at_once * plan.threads() / 32;
  const double waves = blocks(plan) / (static_cast<double>(machine.units) * at_once);
  const auto with = [&](double block) { return block + start / at_once; };
  if (plan.kernel == FieldKernel::queue) return queue_time(plan, machine, at_once, start);
  // Where there are many waves, blocks end at different times, and the last wave is not empty.
  // Columns' blocks at the border take longer than others.
  if (plan.kernel == FieldKernel::columns) {
    const double block = column_clocks(plan, machine.bytes_in_clock, warps);
    return with(block) * at_once * (std::max(waves, 0.6) + 0.75);
  }
  const double block = with(tile_clocks(plan, machine.bytes_in_clock, at_once));
  const double exact = std::ceil(waves);
  return block * at_once * (exact < 4 ? exact : waves + 0.5);
}

}  // namespace plumb::cuda
