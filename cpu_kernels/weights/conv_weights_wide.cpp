// Backward weights on the CPU with vectors over the input's channels. A thread takes a block of dw
// and a part of the positions: of each band x is turned so that channels are neighbours, unless
// they are, and products with single elements of dy, read where they lie, are summed in registers.
//
// Bands and parts do not depend on the device or the number of threads, so that results are the
// same bits for any.
#include "cpu_kernels/weights/conv_weights_wide.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/weights/weights_launch.hpp"
#include "cpu_kernels/weights/weights_wide_plan.hpp"

namespace plumb {
namespace {

using std::int64_t;

struct Steps {
  int64_t h, w;
};
Steps steps_of(const ConvProblem& p) {
  return {p.p() > 1 ? p.stride.h : 1, p.q() > 1 ? p.stride.w : 1};
}

/// Offsets of the taps, in elements of x or of the turned planes.
template <class Real>
void fill_offsets(const WeightsShared<Real>& shared, const WeightsWidePlan& plan) {
  const ConvProblem& p = shared.problem;
  const Planes& planes = plan.planes;
  const Steps step = steps_of(p);
  int64_t* to = shared.offsets;
  for (int64_t t = 0; t < p.t; ++t)
    for (int64_t r = 0; r < p.r; ++r)
      for (int64_t s = 0; s < p.s; ++s) {
        const int64_t down = r * p.dilation.h, right = s * p.dilation.w;
        if (plan.in_x) {
          *to++ =
              t * p.dilation.d * shared.axes.x_d + down * shared.axes.x_h + right * shared.axes.x_w;
          continue;
        }
        const int64_t step_w = plan.by_rows ? 1 : step.w;
        const int64_t column_plane = plan.by_taps ? s : right % step_w;
        const int64_t plane =
            (t * planes.row_planes + down % step.h) * planes.column_planes + column_plane;
        const int64_t column = plan.by_taps ? 0 : right / step_w;
        *to++ = (plane * planes.plane + down / step.h * planes.pitch + column) * plan.x_q;
      }
}

/// Channels [c, c + count) of a plane of x that one tap along the depth meets. `at` is the first
/// one's first element, p the first output row, and `wanted` fill whole vectors.
struct PlaneOfX {
  int64_t at, p, count, wanted;
};

/// Copies a plane whose channels are neighbours, position by position.
template <class Stored, class Real>
void copy_channels(const WeightsShared<Real>& shared, const WeightsWidePlan& plan,
                   const PlaneOfX& from, Real* to) {
  const ConvProblem& p = shared.problem;
  const Planes& planes = plan.planes;
  const Steps step = steps_of(p);
  const Stored* const x = static_cast<const Stored*>(shared.launch.x) + from.at;
  for (int64_t i = 0; i < planes.row_planes; ++i)
    for (int64_t j = 0; j < planes.column_planes; ++j)
      for (int64_t row = 0; row < planes.rows; ++row) {
        const int64_t h = (from.p + row) * step.h + i - p.padding.top;
        for (int64_t column = 0; column < planes.pitch; ++column, to += plan.x_q) {
          const int64_t w = column * step.w + j * planes.column_step - p.padding.left;
          if (h < 0 || h >= p.h || w < 0 || w >= p.w) {
            std::fill_n(to, from.wanted, Real{0});
            continue;
          }
          load_row(x + h * shared.axes.x_h + w * shared.axes.x_w, 1, from.count, to);
          std::fill_n(to + from.count, from.wanted - from.count, Real{0});
        }
      }
}

/// Turns the rows of a plane where they lie, of some channels at a time, whose rows follow each
/// other in memory.
template <class Real>
void turn_rows(const WeightsShared<Real>& shared, const WeightsWidePlan& plan, const PlaneOfX& from,
               Real* to) {
  const ConvProblem& p = shared.problem;
  const WeightsAxes& axes = shared.axes;
  const Planes& planes = plan.planes;
  const int64_t step_h = steps_of(p).h;
  const int64_t begin = std::min(p.padding.left, planes.pitch);
  const int64_t end = std::clamp(p.w + p.padding.left, begin, planes.pitch);
  for (int64_t c = 0; c < from.count; c += plan.chunk) {
    const int64_t channels = std::min(plan.chunk, from.count - c);
    const int64_t wanted = c + channels == from.count ? from.wanted - c : channels;
    const Real* const x = static_cast<const Real*>(shared.launch.x) + from.at + c * axes.x_c;
    const auto zero = [&](Real* cells, int64_t columns) {
      for (int64_t i = 0; i < columns; ++i) std::fill_n(cells + i * plan.x_q, wanted, Real{0});
    };
    Real* row = to + c;
    for (int64_t i = 0; i < planes.row_planes; ++i)
      for (int64_t j = 0; j < planes.rows; ++j, row += planes.pitch * plan.x_q) {
        const int64_t h = (from.p + j) * step_h + i - p.padding.top;
        if (h < 0 || h >= p.h) {
          zero(row, planes.pitch);
          continue;
        }
        zero(row, begin);
        shared.kernels.turn(x + h * axes.x_h, axes.x_c, channels, end - begin,
                            row + begin * plan.x_q, plan.x_q, wanted);
        zero(row + end * plan.x_q, planes.pitch - end);
      }
  }
}

/// Copies a plane of some channels at a time, and turns it.
template <class Real>
void turn_planes(const WeightsShared<Real>& shared, const WeightsWidePlan& plan,
                 const PlaneOfX& from, Real* chunk, Real* to) {
  const ConvProblem& p = shared.problem;
  const WeightsAxes& axes = shared.axes;
  if (turns_in_x<Real>(p) && !plan.by_taps) {
    const Real* const x = static_cast<const Real*>(shared.launch.x) + from.at + from.p * axes.x_h;
    // The last rows of an image may be fewer.
    const int64_t rows = std::min(plan.planes.rows, p.h - from.p);
    shared.kernels.turn(x, axes.x_c, from.count, rows * p.w, to, plan.x_q, from.wanted);
    return;
  }
  ConvShape conv{};
  conv.dtype = p.dtype;
  conv.h = p.h, conv.w = p.w;
  conv.x_c = axes.x_c, conv.x_h = axes.x_h, conv.x_w = axes.x_w;
  const Steps step = steps_of(p);
  conv.stride = {step.h, step.w};
  conv.top = p.padding.top, conv.left = p.padding.left;
  for (int64_t c = 0; c < from.count; c += plan.chunk) {
    conv.group_c = std::min(plan.chunk, from.count - c);
    const int64_t at = from.at + c * axes.x_c;
    conv.x = static_cast<const std::byte*>(shared.launch.x) +
             at * static_cast<std::ptrdiff_t>(size_in_bytes(p.dtype));
    conv.x_readable = {shared.x_readable.begin - at, shared.x_readable.end - at};
    shared.conv_kernels.load_planes(conv, plan.planes, OutputRow{0, 0, from.p, 0, 0}, chunk);
    const bool last = c + plan.chunk >= from.count;
    shared.kernels.turn(chunk, plan.of_channel, conv.group_c, plan.of_channel, to + c, plan.x_q,
                        last ? from.wanted - c : conv.group_c);
  }
}

/// Makes the planes of a band, [tile of channels][image][t][position][channel].
template <class Real>
void load_channels(const WeightsShared<Real>& shared, const WeightsWidePlan& plan,
                   const WeightsBlock& block, const WeightsBand& band, Real* memory) {
  const ConvProblem& p = shared.problem;
  const WeightsAxes& axes = shared.axes;
  Real* const planes = memory + plan.chunk_bytes / sizeof(Real);
  const int64_t plane = plan.of_channel * plan.x_q;
  for (int64_t c = 0; c < block.channels; c += plan.x_q) {
    Real* to = planes + c / plan.x_q * plan.x_tile;
    const int64_t channel = block.group * shared.group_c() + block.c + c;
    const int64_t count = std::min(plan.x_q, block.channels - c);
    for (int64_t i = 0; i < band.images; ++i) {
      const int64_t n = (band.image + i) / p.z(), z = (band.image + i) % p.z();
      for (int64_t t = 0; t < p.t; ++t, to += plane) {
        const int64_t d = z * p.stride.d + t * p.dilation.d - p.padding.front;
        if (d < 0 || d >= p.d) {
          std::fill_n(to, plane, Real{0});
          continue;
        }
        const PlaneOfX from{n * axes.x_n + channel * axes.x_c + d * axes.x_d, band.p, count,
                            round_up(count, shared.kernels.lanes)};
        if (plan.by_rows)
          turn_rows(shared, plan, from, to);
        else if (axes.x_c == 1)
          with_stored<Real>(p.dtype, [&](auto stored) {
            copy_channels<decltype(stored)>(shared, plan, from, to);
          });
        else
          turn_planes(shared, plan, from, memory, to);
      }
    }
  }
}

/// Packs a band's dy as [filter][position], where it is not read in place.
template <class Real>
void pack_dy(const WeightsShared<Real>& shared, const WeightsWidePlan& plan,
             const WeightsBlock& block, const WeightsBand& band, const WeightsSlot<Real>& slot) {
  const WeightsAxes& axes = shared.axes;
  const int64_t q = shared.problem.q(), rows = band.images * band.rows;
  const int64_t step = gradient_step(rows * q);
  if (!plan.turns_dy) {
    shared.kernels.pack_positions({.dtype = shared.problem.dtype,
                                   .dy = shared.launch.w,
                                   .offsets = slot.rows,
                                   .rows = rows,
                                   .columns = q,
                                   .filters = block.filters,
                                   .dy_k = axes.y_k,
                                   .dy_q = axes.y_q},
                                  q, step, slot.dy);
    return;
  }
  const int64_t together = axes.y_p == q * axes.y_q ? band.rows : 1;
  const auto* const dy = static_cast<const Real*>(shared.launch.w);
  for (int64_t row = 0; row < rows; row += together)
    shared.kernels.turn(dy + slot.rows[row], axes.y_q, together * q, block.filters,
                        slot.dy + row * q, step, together * q);
}

/// Packs dy where it has to be, and finds where the runs of a band begin.
template <class Real>
WeightsWideRun<Real> run_of(const WeightsShared<Real>& shared, const WeightsWidePlan& plan,
                            const WeightsBlock& block, const WeightsBand& band,
                            const WeightsSlot<Real>& slot) {
  const ConvProblem& p = shared.problem;
  const WeightsAxes& axes = shared.axes;
  const int64_t q = p.q(), rows = band.images * band.rows;
  find_rows(shared, block, band, slot.rows);
  if (!plan.dy_in_place) pack_dy(shared, plan, block, band, slot);
  const int64_t rows_together = plan.flat ? band.rows : 1;
  const int64_t images_together = plan.images_in_line ? band.images : 1;
  int64_t runs = 0;
  for (int64_t i = 0; i < band.images; i += images_together)
    for (int64_t row = 0; row < band.rows; row += rows_together, ++runs) {
      const int64_t n = (band.image + i) / p.z(), z = (band.image + i) % p.z();
      slot.x_starts[runs] =
          plan.in_x
              ? n * axes.x_n + z * p.stride.d * axes.x_d + (band.p + row) * steps_of(p).h * axes.x_h
              : (i * plan.image_planes + row * plan.planes.pitch) * plan.x_q;
      slot.dy_starts[runs] =
          plan.dy_in_place ? slot.rows[i * band.rows + row] : (i * band.rows + row) * q;
    }
  const auto* const x = static_cast<const Real*>(shared.launch.x);
  return {.x = plan.in_x ? x + (block.group * shared.group_c() + block.c) * axes.x_c
                         : slot.planes + plan.chunk_bytes / sizeof(Real),
          .offsets = shared.offsets,
          .taps = shared.taps(),
          .x_starts = slot.x_starts,
          .dy_starts = slot.dy_starts,
          .runs = runs,
          .count = q * rows_together * images_together,
          .x_q = plan.x_step,
          .x_tile = plan.x_tile,
          .dy = plan.dy_in_place ? static_cast<const Real*>(shared.launch.w) : slot.dy,
          .dy_k = plan.dy_in_place ? axes.y_k : gradient_step(rows * q),
          .dy_q = plan.dy_in_place ? axes.y_q : 1,
          .filters = block.filters,
          .channels = round_up(block.channels, shared.kernels.lanes),
          .sums = slot.sums,
          .first = false};
}

/// Writes the sums of filter k, [tap][channel], to the parts, or those of the only part to dw.
template <class Real>
void write_sums(const WeightsShared<Real>& shared, const WeightsWidePlan& plan,
                const WeightsBlock& block, int64_t part, int64_t k, const Real* sums, Real* own) {
  const int64_t taps = shared.taps(), terms = block.channels * taps, term = block.c * taps;
  const int64_t channels = round_up(block.channels, shared.kernels.lanes);
  const bool alone = plan.sum.parts == 1;
  const WeightsOutput<Real>& output = shared.output;
  if (alone && taps > 1 && output.place_channels(k, term)) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      Real* const to = output.place_channels(k, term + tap);
      std::copy_n(sums + tap * channels, block.channels, to);
      output.mend(to, k, term + tap, block.channels, taps);
    }
    return;
  }
  Real* const place = alone ? output.place(k, term, terms) : nullptr;
  Real* const to = place   ? place
                   : alone ? own
                           : shared.parts + (part * shared.problem.k + k) * shared.terms() + term;
  if (taps > 1)
    shared.kernels.turn(sums, channels, taps, block.channels, to, taps, taps);
  else
    std::copy_n(sums, terms, to);
  if (place)
    output.mend(place, k, term, terms);
  else if (alone)
    output.write(to, k, term, terms);
}

/// Sums a part of the positions for a block, and writes it to the parts; the only one goes to dw.
template <class Real>
void sum_part(const WeightsShared<Real>& shared, const WeightsWidePlan& plan,
              const WeightsBlock& block, int64_t part, const WeightsSlot<Real>& slot) {
  const int64_t taps = shared.taps();
  const int64_t channels = round_up(block.channels, shared.kernels.lanes);
  const int64_t begin = plan.sum.band_of(part), end = plan.sum.band_of(part + 1);
  if (begin == end) std::fill_n(slot.sums, block.filters * taps * channels, Real{0});
  for (int64_t band = begin; band < end; ++band) {
    const WeightsBand at = band_at(plan.sum, band, shared.problem.p());
    if (!plan.in_x) load_channels(shared, plan, block, at, slot.planes);
    WeightsWideRun<Real> run = run_of(shared, plan, block, at, slot);
    run.first = band == begin;
    shared.kernels.sum_channels(run);
  }
  const int64_t k = block.group * shared.group_k() + block.k;
  for (int64_t i = 0; i < block.filters; ++i)
    write_sums(shared, plan, block, part, k + i, slot.sums + i * taps * channels, slot.block);
}

template <class Real>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  if (Support support = takes_weights<Real>(problem); !support) return {.support = support};
  const WeightsKernels<Real>& kernels = weights_kernels<Real>(device);
  WeightsWidePlan cut = plan_channels(problem, kernels, device);
  const double work = weights_wide_work(problem, kernels, cut);
  return weights_result<Real>(problem, device, std::move(cut), work, 0.86);
}

template <class Real>
void launch(const ConvLaunch& launch, const KernelPlan* kernel) {
  const auto& plan = static_cast<const WeightsWidePlan&>(*kernel);
  launch_weights<Real>(
      launch, plan, nullptr, [&](const WeightsShared<Real>& shared) { fill_offsets(shared, plan); },
      [&](const WeightsShared<Real>& shared, const WeightsBlock& block, int64_t part,
          const WeightsSlot<Real>& slot) { sum_part(shared, plan, block, part, slot); });
}

/// Where the algorithm is made of forward convolutions of another, the chain is that of all terms.
template <class Real>
double chain(const ConvProblem& problem) {
  return takes_weights<Real>(problem) ? weights_wide_chain(problem, sizeof(Real))
                                      : static_cast<double>(problem.terms());
}

template <class Real>
constexpr ConvAlgorithm algorithm(std::string_view name, Operand operand, Accumulator sums) {
  return {.name = name,
          .numerics = {.operand = operand, .accumulator = sums, .chain = chain<Real>},
          .takes_depth = true,
          .accumulates = true,
          .takes_backward_weights = true,
          .plan = plan<Real>,
          .launch = launch<Real>};
}

}  // namespace

const ConvAlgorithm conv_weights_wide_fp32 =
    algorithm<float>("cpu.conv.weights_wide.fp32", Operand::fp32, Accumulator::fp32_fma);
const ConvAlgorithm conv_weights_wide_fp64 =
    algorithm<double>("cpu.conv.weights_wide.fp64", Operand::fp64, Accumulator::fp64_fma);

}  // namespace plumb
