// How depthwise backward weights is cut. The cut depends on the problem alone, and not on the
// device: it is the order of the sums.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cuda_kernels/cost/depthwise_weights.hpp"
#include "cuda_kernels/cost/weights.hpp"
#include "cuda_kernels/depthwise_weights/depthwise_weights.hpp"

namespace plumb::cuda {
namespace {

using std::int64_t;
using Kernel = DepthwiseWeightsKernel;

constexpr int threads = depthwise_weights_threads;
constexpr double index_limit = 0x7fff0000;
constexpr double parts_limit = 64 << 20;  // bytes of workspace
// Of shared memory of a block, so that as many fit a multiprocessor as its registers hold.
int stage_limit(const DepthwiseWeightsCut& cut) {
  return (228 << 10) / depthwise_weights_blocks(cut.kernel, cut.form.rows, cut.real_bytes) -
         (1 << 10);
}

/// The axis where its stride is one that is compiled, or may be taken for `other`.
std::optional<DepthwiseWeightsAxis> axis_of(const WeightsAxis& from, int stride) {
  constexpr int64_t most = 1 << 28;
  for (const int64_t number : {from.outputs, from.extent, from.before, from.unit,
                               from.unit * std::max(from.dilation, 1) * int64_t{from.taps},
                               from.unit * from.stride * from.outputs})
    if (number > most) return std::nullopt;
  const int dilation = std::max(from.dilation, 1);
  int64_t unit = from.unit;
  if (from.taps == 1 && unit * from.stride % stride == 0)
    unit = unit * from.stride / stride;  // any stride is a multiple of a unit
  else if ((from.outputs > 1 && from.stride != stride) || (stride > 1 && dilation > 1))
    return std::nullopt;
  DepthwiseWeightsAxis axis{.outputs = static_cast<int>(from.outputs),
                            .extent = static_cast<int>(from.extent),
                            .before = static_cast<int>(from.before),
                            .unit = static_cast<int>(unit),
                            .step = static_cast<int>(unit) * dilation,
                            .dilation = dilation,
                            .stride = stride,
                            .taps = from.taps};
  axis.phases = static_cast<int>(std::min<int64_t>(dilation, from.outputs));
  return axis;
}

/// How far from the element of index zero the strides lead.
double reach(const Extents& extents, const Strides& strides) {
  double sum = 0;
  for (int i = 0; i < extents.rank(); ++i)
    if (extents[i] > 1)
      sum += static_cast<double>(extents[i] - 1) * static_cast<double>(std::abs(strides[i]));
  return sum;
}

/// Says whether all offsets, those of the padding too, fit 32 bits.
bool offsets_fit(const ConvProblem& problem, const DepthwiseWeightsPlan& plan) {
  const WeightsStrides& s = plan.weights.strides;
  const int64_t x_h = plan.rows_are_images ? s.x_n : s.x_h;
  const int64_t y_p = plan.rows_are_images ? s.y_n : s.y_p;
  const auto padded = [](const DepthwiseWeightsAxis& axis, int64_t step) {
    const double coordinates = 2.0 * axis.before + axis.extent + 64.0 * axis.step * axis.stride;
    return coordinates * static_cast<double>(std::abs(step));
  };
  const double x =
      reach(problem.x_extents(), problem.x_strides) + padded(plan.h, x_h) + padded(plan.w, s.x_w);
  const double beside = 64.0 * (static_cast<double>(std::abs(y_p)) * plan.h.dilation +
                                static_cast<double>(std::abs(s.y_q)) * plan.w.dilation);
  const double y = reach(problem.y_extents(), problem.y_strides) + beside;
  // Steps along a row are in bytes.
  const double step_bytes = 8.0 * std::max(static_cast<double>(std::abs(s.x_w)) * plan.w.step,
                                           static_cast<double>(std::abs(s.y_q)) * plan.w.dilation);
  return x < index_limit && y < index_limit && step_bytes < index_limit &&
         static_cast<double>(plan.weights.sizes.weights()) < index_limit;
}

/// The most steps that any tile and phase has along an axis.
template <class Span>
int max_steps(const DepthwiseWeightsAxis& axis, int tiles, int taps, int each, const Span& span) {
  int most = 0;
  for (int tile = 0; tile < tiles; ++tile)
    for (int phase = 0; phase < std::min(axis.phases, 256); ++phase)
      most = std::max(most, span(axis, phase, tile * taps, taps).steps(each));
  // Of more phases than are looked at none has more than the first and one.
  return std::max(most + (axis.phases > 256 ? 1 : 0), 1);
}

/// The least distance between rows from `least` on, in elements, at which the vectors that eight
/// neighbouring threads read lie in different banks. `apart` rows lie between lines of a thread.
int pitch_without_conflicts(int least, int groups, int column_vectors, int apart, int real_bytes) {
  const int vector = 16 / real_bytes, at_once = std::min(groups, 8);
  const auto conflicts = [&](int pitch) {
    int worst = 0, of_bank[8] = {};
    for (int thread = 0; thread < 8; ++thread) {
      const int line = thread / at_once, column = thread % at_once;
      const int vectors = (line * apart * pitch) / vector + column * column_vectors;
      worst = std::max(worst, ++of_bank[vectors % 8]);
    }
    return worst;
  };
  int best = least;
  for (int pitch = least; pitch < least + 8 * vector && pitch < least + least / 3 + 5;
       pitch += vector)
    if (conflicts(pitch) < conflicts(best)) best = pitch;
  return best;
}

/// The search for the cut that takes the fewest clocks, of a model that no device has a say in.
struct Search {
  const DepthwiseWeightsPlan& plan;
  int real_bytes, stored_bytes;
  std::optional<DepthwiseWeightsCut> best = {};

  void try_form(Kernel kernel, const DepthwiseWeightsForm& form);
  void try_channels(DepthwiseWeightsCut cut, int steps_h, int steps_w);
  void try_planes(DepthwiseWeightsCut cut, int steps_h, int steps_w);
  void try_box(DepthwiseWeightsCut cut);
  void try_parts(DepthwiseWeightsCut cut, const DepthwiseWeightsWork& work, double members);

  const WeightsSizes& sizes() const { return plan.weights.sizes; }
  DepthwiseWeightsStep step_of(const DepthwiseWeightsCut& cut) const {
    return depthwise_weights_step(cut.kernel, cut.form, real_bytes);
  }
};

void Search::try_form(Kernel kernel, const DepthwiseWeightsForm& form) {
  if (!is_compiled(form, real_bytes) || form.stride != plan.h.stride) return;
  DepthwiseWeightsCut cut{.kernel = kernel, .form = form, .real_bytes = real_bytes};
  cut.tiles_r = static_cast<int>(ceil_div(plan.h.taps, form.rows));
  cut.tiles_s = static_cast<int>(ceil_div(plan.w.taps, form.columns));
  const DepthwiseWeightsStep step = step_of(cut);
  const int steps_h = max_steps(plan.h, cut.tiles_r, form.rows, step.lines, lines_of);
  const int steps_w = max_steps(plan.w, cut.tiles_s, form.columns, step.outputs, outputs_of);
  if (kernel == Kernel::channels)
    try_channels(cut, steps_h, steps_w);
  else
    try_planes(cut, steps_h, steps_w);
}

void Search::try_channels(DepthwiseWeightsCut cut, int steps_h, int steps_w) {
  while (cut.block_k < std::min(plan.filters, 32)) cut.block_k *= 2;
  cut.members = threads / cut.block_k;
  cut.blocks_k = ceil_div(plan.filters, cut.block_k);
  cut.strips = steps_w;
  const DepthwiseWeightsStep step = step_of(cut);
  const DepthwiseWeightsForm& form = cut.form;
  const int lines = (form.rows + form.stride - 1) / form.stride;
  const int window = (step.outputs - 1) * form.stride + form.columns;
  int last_bands = 0;
  for (const int least : {1, 2, 3, 4, 5, 7, 8, 10, 14, 16, 28}) {
    cut.band_steps = static_cast<int>(ceil_div(steps_h, least));
    cut.bands = static_cast<int>(ceil_div(steps_h, cut.band_steps));
    if (cut.bands == last_bands) continue;
    last_bands = cut.bands;
    cut.units = plan.images * cut.bands * plan.h.phases * cut.strips * plan.w.phases;
    const double outputs = 1.0 * step.lines * step.outputs;
    const DepthwiseWeightsWork work{.real_bytes = real_bytes,
                                    .widens = stored_bytes < real_bytes,
                                    .fmas = outputs * form.rows * form.columns,
                                    .reads = 1.0 * step.lines * form.stride * window +
                                             (step.lines + lines - 1.0) * step.outputs,
                                    .steps = 1.0 * cut.band_steps,
                                    .bytes = cut.band_steps * outputs * cut.block_k * stored_bytes *
                                             (1.0 + form.stride * form.stride)};
    try_parts(cut, work, cut.members);
  }
}

void Search::try_planes(DepthwiseWeightsCut cut, int steps_h, int steps_w) {
  for (const int block_k : {1, 2, 4, 8, 16}) {
    if (block_k > 1 && block_k / 2 >= plan.filters) break;
    cut.block_k = block_k, cut.members = threads / block_k;
    cut.blocks_k = ceil_div(plan.filters, block_k);
    for (const int strip : {64, 32, 16, 8}) {
      cut.strip_steps = static_cast<int>(ceil_div(steps_w, ceil_div(steps_w, strip)));
      cut.strips = static_cast<int>(ceil_div(steps_w, cut.strip_steps));
      int last_bands = 0;
      for (const int least : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 1 << 20}) {
        cut.band_steps = static_cast<int>(ceil_div(steps_h, std::min(least, steps_h)));
        cut.bands = static_cast<int>(ceil_div(steps_h, cut.band_steps));
        if (cut.bands == last_bands) continue;
        last_bands = cut.bands;
        for (const int images : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32}) {
          if (images > 1 && (cut.bands > 1 || cut.strips > 1 || images > plan.images)) break;
          cut.box_n = images;
          try_box(cut);
        }
      }
      if (steps_w <= strip / 2) break;
    }
  }
}

void Search::try_box(DepthwiseWeightsCut cut) {
  const DepthwiseWeightsStep step = step_of(cut);
  const DepthwiseWeightsForm& form = cut.form;
  const int lines = (form.rows + form.stride - 1) / form.stride;
  const int room = ((step.outputs - 1) * form.stride + form.columns + 3) / 4 * 4;
  cut.x_rows = cut.band_steps * step.lines * form.stride;
  cut.y_rows = cut.band_steps * step.lines + lines - 1;
  cut.x_pitch =
      pitch_without_conflicts(form.stride * 4 * (cut.strip_steps - 1) + room, cut.strip_steps,
                              form.stride * real_bytes / 4, step.lines * form.stride, real_bytes);
  cut.y_pitch = pitch_without_conflicts(4 * cut.strip_steps, cut.strip_steps, real_bytes / 4,
                                        step.lines, real_bytes);
  const double stage =
      (1.0 * cut.x_rows * cut.x_pitch + 1.0 * cut.y_rows * cut.y_pitch) * cut.box_n * cut.block_k;
  if (stage * real_bytes > stage_limit(cut)) return;
  cut.shared_bytes = static_cast<std::size_t>(stage) * static_cast<std::size_t>(real_bytes);
  cut.units = ceil_div(std::max<int64_t>(plan.images, 1), cut.box_n) * cut.bands * plan.h.phases *
              cut.strips * plan.w.phases;
  const double steps = 1.0 * cut.box_n * cut.band_steps * cut.strip_steps;
  const double outputs = 1.0 * step.lines * step.outputs;
  const double of_rows = cut.box_n * cut.block_k *
                         (1.0 * cut.x_rows * (form.stride * 4 * (cut.strip_steps - 1) + room) +
                          1.0 * cut.y_rows * 4 * cut.strip_steps);
  const DepthwiseWeightsWork work{
      .real_bytes = real_bytes,
      .widens = stored_bytes < real_bytes,
      .fmas = outputs * form.rows * form.columns,
      .vectors = (1.0 * step.lines * form.stride * room / 4 + (step.lines + lines - 1.0)) *
                 (real_bytes / 4),
      .steps = std::ceil(steps / cut.members),
      .copied = of_rows,
      .bytes = steps * outputs * cut.block_k * stored_bytes * (1.0 + form.stride * form.stride)};
  try_parts(cut, work, 1);
}

void Search::try_parts(DepthwiseWeightsCut cut, const DepthwiseWeightsWork& work, double members) {
  const int at_once = real_bytes == 8 ? (cut.form.rows + 1) / 2 : cut.form.rows;
  const auto sums = static_cast<std::size_t>(at_once * cut.form.columns * (threads + 1));
  cut.shared_bytes = std::max(cut.shared_bytes, sums * static_cast<std::size_t>(real_bytes));
  DepthwiseWeightsShares shares{
      .blocks = static_cast<double>(cut.blocks_k) * sizes().d.taps * cut.tiles_r * cut.tiles_s,
      .units = static_cast<double>(std::max<int64_t>(cut.units, 1)),
      .members = members,
      .resident = 1.0 * depthwise_weights_blocks(cut.kernel, cut.form.rows, real_bytes),
      .weights_bytes = static_cast<double>(sizes().weights()) * real_bytes};
  if (shares.blocks > index_limit || shares.units > index_limit) return;
  const double max_parts = std::max(1.0, std::floor(parts_limit / shares.weights_bytes));
  const double slots = weights_units * shares.resident;
  for (const double waves : {0.5, 1.0, 2.0, 3.0, 4.0}) {
    shares.parts = std::clamp(std::floor(waves * slots / shares.blocks), 1.0,
                              std::min({shares.units, max_parts, 4096.0}));
    // No more parts than have one more unit each.
    const double each = std::ceil(shares.units / shares.parts / members) * members;
    shares.parts = std::min(shares.parts, std::ceil(shares.units / each));
    if (shares.parts * shares.blocks > index_limit) continue;
    const double clocks = depthwise_weights_clocks(work, shares);
    if (best && best->clocks <= clocks) continue;
    cut.parts = static_cast<int64_t>(shares.parts);
    cut.clocks = clocks;
    best = cut;
  }
}

/// Says whether images are single rows, that taps along other axes do not leave.
bool is_line(const WeightsSizes& sizes) {
  const auto single = [](const WeightsAxis& axis) {
    return axis.outputs == 1 && axis.extent == 1 && axis.taps == 1 && axis.before == 0;
  };
  return single(sizes.d) && single(sizes.h) && sizes.n > 1 && sizes.n < (1 << 28);
}

/// Says whether neighbouring channels lie side by side in both tensors.
bool channels_side_by_side(const ConvProblem& problem, const DepthwiseWeightsPlan& plan) {
  const WeightsStrides& s = plan.weights.strides;
  return problem.k > 1 && problem.k == problem.c && s.x_c == 1 && s.y_k == 1 &&
         plan.weights.sizes.h.outputs * plan.weights.sizes.w.outputs > 1;
}

}  // namespace

std::optional<DepthwiseWeightsPlan> plan_depthwise_weights(const ConvProblem& problem,
                                                           const DepthwiseWeightsChoice& choice) {
  if (problem.groups != problem.c) return std::nullopt;
  const auto sizes = weights_sizes(problem);
  if (!sizes || static_cast<double>(problem.k) > index_limit) return std::nullopt;
  DepthwiseWeightsPlan plan{.weights = {.sizes = *sizes, .strides = weights_strides(problem)},
                            .filters = static_cast<int>(problem.k)};
  const int real_bytes = problem.dtype == DType::f64 ? 8 : 4;
  for (const int stride : {1, 2}) {
    const auto h = axis_of(sizes->h, stride), w = axis_of(sizes->w, stride);
    if (!h || !w) continue;
    plan.h = *h, plan.w = *w, plan.images = sizes->images;
    plan.rows_are_images = stride == 1 && is_line(*sizes);
    if (plan.rows_are_images) {
      const int rows = static_cast<int>(sizes->n);
      plan.h = {.outputs = rows, .extent = rows};
      plan.images = 1;
    }
    if (!offsets_fit(problem, plan)) continue;
    Search search{plan, real_bytes, static_cast<int>(size_in_bytes(problem.dtype))};
    const Kernel kernel = channels_side_by_side(problem, plan) ? Kernel::channels : Kernel::planes;
    for (const DepthwiseWeightsForm& form : depthwise_weights_forms) {
      if (choice.form ? !(*choice.form == form) : form.rows == 1 && plan.h.taps > 1) continue;
      search.try_form(kernel, form);
      // A larger one does more for the same taps.
      if (search.best && form.rows >= plan.h.taps && form.columns >= plan.w.taps) break;
    }
    if (!search.best) continue;
    plan.cut = *search.best;
    plan.weights.cut.parts = plan.cut.parts;
    plan.weights.cut.units = plan.cut.units;
    return plan;
  }
  return std::nullopt;
}

double depthwise_weights_chain(const DepthwiseWeightsPlan& plan) {
  const DepthwiseWeightsCut& cut = plan.cut;
  const WeightsSizes& sizes = plan.weights.sizes;
  const DepthwiseWeightsStep step = depthwise_weights_step(cut.kernel, cut.form, cut.real_bytes);
  const bool channels = cut.kernel == Kernel::channels;
  const auto up = [](double a, double b) { return std::ceil(a / b); };
  const double units = up(static_cast<double>(cut.units), static_cast<double>(cut.parts));
  const double steps =
      channels ? up(units, cut.members) * cut.band_steps
               : units * up(1.0 * cut.box_n * cut.band_steps * cut.strip_steps, cut.members);
  const double thread = steps * step.lines * step.outputs;
  const double parts = up(static_cast<double>(cut.parts), depthwise_finish_rows);
  const double terms = static_cast<double>(sizes.images) * static_cast<double>(sizes.h.outputs) *
                       static_cast<double>(sizes.w.outputs);
  // What is NaN is summed again in double by a block (weights_finish.cuh), in less.
  return std::min(std::max(thread + cut.members + parts + std::log2(depthwise_finish_rows), 16.0),
                  std::max(terms, 1.0));
}

}  // namespace plumb::cuda
