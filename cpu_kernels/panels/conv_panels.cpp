// This convolution serves many channels on the CPU. The outputs of all images are numbered through
// and cut into panels (panel.hpp); a thread packs a panel's input, [term][output], a block of terms
// at a time, into its level-2 cache, and multiplies it by all filters. Many filters make up for the
// packing, and no position is wasted at the ends of rows and images.
//
// Panels go to threads in shares, smaller ones towards the end: several whole panels, and maybe
// some filters of the panel at either end. Where each thread has few panels, all threads pack them
// first. A 1x1 convolution of a dense image is not packed: the image is a panel.
//
// Each output is summed in the order of its terms, so that results are the same bits however the
// work is cut and whoever does it.
#include "cpu_kernels/panels/conv_panels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/src/parallel/parallel.hpp"
#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/conv/conv_launch.hpp"
#include "cpu_kernels/panels/panel.hpp"
#include "cpu_kernels/panels/panels_cut.hpp"

namespace plumb {
namespace {

using std::int64_t;

/// Returns the convolution as packing sees it: the rows of a 1x1 convolution's image are joined
/// where they are evenly spaced, and images of one output become one row.
ConvShape joined(ConvShape conv, const ConvProblem& p) {
  if (p.r != 1 || p.s != 1 || p.padding != Padding{}) return conv;
  if (conv.p == 1 && conv.q == 1) {
    conv.q = conv.w = p.n;
    conv.x_w = conv.x_n;
    conv.stride.w = 1;
  } else if (p.stride == Pair{} && conv.x_h == conv.w * conv.x_w) {
    conv.q = conv.w = conv.p * conv.q;
    conv.p = conv.h = 1;
  }
  return conv;
}

template <class Real>
std::size_t workspace_bytes(const ConvProblem& problem, const DeviceInfo& device) {
  if (problem.n == 0) return 0;
  const PanelCut c = panel_cut<Real>(problem, std::max(device.units, 1));
  const int threads = c.threads(std::max(device.units, 1));
  return c.bytes(threads) - c.filters_bytes;
}

/// Calls `f(row, position)` for each row of outputs in a panel; an image has `p` rows of `q`.
template <class F>
void for_each_row(const Panel& panel, int64_t p, int64_t q, const F& f) {
  for (int64_t position = 0; position < panel.count;) {
    const int64_t i = panel.first + position, column = i % q;
    const int64_t count = std::min(q - column, panel.count - position);
    f(OutputRow{i / (p * q), panel.group, i / q % p, column, count}, position);
    position += count;
  }
}

/// The data that all tasks share.
template <class Real>
struct Shared {
  const ConvShape& conv;
  ConvShape joined;  ///< `conv` as packing sees it
  const PanelCut& cut;
  const ConvKernels<Real>& kernels;
  const int64_t *panel_offsets, *image_offsets;  ///< offsets of a block's terms
  const Real* filters;
  const Real* bias;  ///< bias of all filters, or null
  Real* kept;        ///< panels that were packed first, [panel][block]
  int64_t outputs;   ///< outputs of all images
  int64_t y_rows;    ///< rows of an image in y; 1 where they are evenly spaced
  bool in_y;         ///< whether the sums of one image's outputs may grow in y
};

/// A panel's input, packed or in x.
template <class Real>
struct Values {
  const Real* first;
  const int64_t* offsets;
  bool image;  ///< whether the panel lies in x, where the next panel follows it
};

/// Adds a block of terms to the sums of a panel and some filters.
template <class Real>
void add_block(const Shared<Real>& shared, const Panel& panel, const Values<Real>& values,
               FilterRange task, Real* staged) {
  const ConvShape& conv = shared.conv;
  const PanelCut& cut = shared.cut;
  const ConvKernels<Real>& kernels = shared.kernels;
  const bool first = panel.first_term == 0, last = panel.first_term + panel.terms == conv.terms();
  const int64_t outputs = conv.p * conv.q, n = panel.first / outputs;
  const bool one_image = (panel.first + panel.count - 1) / outputs == n;
  // The tiles of each run prefetch a few terms' lines of the next panel: all lines at once would
  // delay the tiles.
  const int64_t runs = ceil_div(task.count, kernels.filters);
  const int64_t max_prefetched = values.image ? ceil_div(panel.terms, runs) : 0;
  for (int64_t k = task.k; k < task.k + task.count;) {
    const int64_t of_all = panel.group * conv.group_k + k;
    const FilterRange range{.k = k, .count = run_filters(task.k + task.count - k, kernels.filters)};
    Real* const kept = staged + (cut.blocks > 1 ? (k - task.k) * cut.width : 0);
    Real* sums = kept;
    int64_t step = cut.width;
    if (last && shared.in_y && one_image) {
      sums = static_cast<Real*>(conv.y) + n * conv.y_n + of_all * conv.y_k + panel.first % outputs;
      step = conv.y_k;
    }
    const Real* const packed = shared.filters + of_all * conv.terms();
    const int64_t prefetched =
        std::min((k - task.k) / kernels.filters * max_prefetched, panel.terms);
    const bool nan =
        kernels.micro_kernel({.x = values.first,
                              .offsets = values.offsets,
                              .terms = panel.terms,
                              .prefetch_offsets = values.offsets + prefetched,
                              .prefetch_terms = std::min(max_prefetched, panel.terms - prefetched),
                              .prefetch_distance = cut.width,
                              .w = packed + panel.first_term * range.count,
                              .filters = range.count,
                              .partial = first ? nullptr : kept,
                              .partial_step = cut.width,
                              .sums = sums,
                              .step = step,
                              .count = panel.count,
                              .rows = 1,
                              .x_row = 0,
                              .sums_row = 0,
                              .bias = last && shared.bias ? shared.bias + of_all : nullptr,
                              .relu = last && conv.relu_of_sums(),
                              .find_nan = last && conv.padded,
                              .plus_zero = last && conv.reproducible});
    k += range.count;
    if (!last || (!nan && sums != kept)) continue;
    if (nan)
      for_each_row(panel, conv.p, conv.q, [&](const OutputRow& row, int64_t position) {
        kernels.recompute(conv, row, range, packed, sums + position, step);
      });
    if (sums == kept)
      for_each_row(panel, shared.y_rows, outputs / shared.y_rows,
                   [&](const OutputRow& row, int64_t position) {
                     kernels.store(conv, row, 1, range, sums + position, step, 0);
                   });
  }
}

/// Returns the panel in x itself, or null where it does not lie there or whole vectors would read
/// beyond x.
template <class Real>
const Real* in_image(const Shared<Real>& shared, const Panel& panel) {
  const ConvShape& conv = shared.conv;
  const int64_t image = conv.p * conv.q, n = panel.first / image;
  if (shared.cut.image_panels == 0) return nullptr;
  const int64_t at = n * conv.x_n + (panel.group * conv.group_c + panel.first_term) * conv.x_c +
                     panel.first % image;
  const int64_t read = (panel.terms - 1) * conv.x_c + round_up(panel.count, max_lanes);
  if (!conv.x_readable.holds(at, at + read)) return nullptr;
  return static_cast<const Real*>(conv.x) + at;
}

/// Returns a block of the terms of panel `i`, numbered through all groups.
template <class Real>
Panel panel_of(const Shared<Real>& shared, int64_t i, int64_t block) {
  const PanelCut& cut = shared.cut;
  const int64_t panel = i % cut.panels, term = block * cut.block;
  int64_t first = panel * cut.width, end = shared.outputs;
  if (cut.image_panels > 0) {
    const int64_t image = shared.conv.p * shared.conv.q, n = panel / cut.image_panels;
    first = n * image + panel % cut.image_panels * cut.width;
    end = (n + 1) * image;
  }
  return {.group = i / cut.panels,
          .first = first,
          .count = std::min(cut.width, end - first),
          .first_term = term,
          .terms = std::min(cut.block, shared.conv.terms() - term),
          .step = cut.step};
}

/// Computes all terms of some filters of panel `i`, in a thread's own part of the workspace.
template <class Real>
void add_terms(const Shared<Real>& shared, int64_t i, FilterRange range, std::byte* slot) {
  const PanelCut& cut = shared.cut;
  auto* const staged = reinterpret_cast<Real*>(slot + cut.panel_bytes);
  for (int64_t block = 0; block < cut.blocks; ++block) {
    const Panel panel = panel_of(shared, i, block);
    Values<Real> values{in_image(shared, panel), shared.image_offsets, true};
    if (!values.first) {
      Real* const copied = cut.packed_first
                               ? shared.kept + (i * cut.blocks + block) * cut.panel_reals
                               : reinterpret_cast<Real*>(slot);
      if (!cut.packed_first) shared.kernels.pack_panel(shared.joined, panel, copied);
      values = {copied, shared.panel_offsets, false};
    }
    add_block(shared, panel, values, range, staged);
  }
}

/// The runs [begin, end) of filters, numbered through all panels.
struct Runs {
  int64_t begin, end;
};

/// Takes the next share of a thread: a part of what is left, so that all threads end together. A
/// share is whole panels as long as it has more than `min_runs`.
Runs take_runs(std::atomic<int64_t>& taken, int64_t runs, int64_t runs_of_panel, int64_t min_runs,
               int threads) {
  int64_t begin = taken.load(std::memory_order_relaxed), end;
  do {
    const int64_t left = runs - begin, part = std::max(left / (2 * threads), min_runs);
    end = begin + std::min(part, left);
    if (part > min_runs && end / runs_of_panel > begin / runs_of_panel) end -= end % runs_of_panel;
  } while (!taken.compare_exchange_weak(begin, end, std::memory_order_relaxed));
  return {begin, end};
}

/// Returns what all tasks share. At the front of the workspace lie the bias, the offsets of a
/// block's terms, and the panels that are packed first.
template <class Real>
Shared<Real> shared_of(const ConvLaunch& launch, const ConvShape& conv, const PanelCut& cut) {
  std::byte* const workspace = static_cast<std::byte*>(launch.workspace);
  auto* const bias = reinterpret_cast<Real*>(workspace);
  auto* const offsets = reinterpret_cast<int64_t*>(workspace + cut.bias_bytes);
  for (int64_t term = 0; term < cut.block; ++term) {
    offsets[term] = term * cut.step;
    offsets[cut.block + term] = term * conv.x_c;
  }
  if (launch.bias) widen_bias(conv, launch.problem.k, bias);
  return {
      .conv = conv,
      .joined = joined(conv, launch.problem),
      .cut = cut,
      .kernels = conv_kernels<Real>(launch.device),
      .panel_offsets = offsets,
      .image_offsets = offsets + cut.block,
      .filters = static_cast<const Real*>(launch.filters),
      .bias = launch.bias ? bias : nullptr,
      .kept = reinterpret_cast<Real*>(workspace + cut.shared_bytes() - cut.panels_bytes),
      .outputs = launch.problem.n * conv.p * conv.q,
      .y_rows = conv.y_p == conv.q * conv.y_q ? 1 : conv.p,
      .in_y = !conv.accumulate && sums_fit_y<Real>(conv) && (conv.y_p == conv.q || conv.p == 1)};
}

/// Packs the blocks of all panels, each by the thread that comes to it first.
template <class Real>
void pack_all(const Shared<Real>& shared, int64_t panels, std::atomic<int64_t>& packed) {
  const PanelCut& cut = shared.cut;
  for (int64_t task; (task = packed.fetch_add(1)) < panels * cut.blocks;) {
    const Panel panel = panel_of(shared, task / cut.blocks, task % cut.blocks);
    if (!in_image(shared, panel))
      shared.kernels.pack_panel(shared.joined, panel, shared.kept + task * cut.panel_reals);
  }
}

/// Computes a share: its panels one after another, with all or some of their filters.
template <class Real>
void multiply_share(const Shared<Real>& shared, Runs share, int64_t runs_of_panel,
                    std::byte* slot) {
  const int64_t filters = shared.kernels.filters, group_k = shared.conv.group_k;
  for (int64_t run = share.begin, count = 0; run < share.end; run += count) {
    const int64_t k = run % runs_of_panel * filters;
    count =
        std::min({share.end - run, runs_of_panel - run % runs_of_panel, filters_of_pass / filters});
    add_terms(shared, run / runs_of_panel,
              {.k = k, .count = std::min(count * filters, group_k - k)}, slot);
  }
}

template <class Real>
void launch(const ConvLaunch& launch) {
  const ConvProblem& problem = launch.problem;
  if (problem.n == 0) return;
  const int units = std::max(launch.device.units, 1);
  const PanelCut c = panel_cut<Real>(problem, units);
  const ConvShape conv = shape_of(launch);
  const Shared<Real> shared = shared_of<Real>(launch, conv, c);
  const int threads = std::min(c.threads(units), worthwhile_threads(problem, available_threads()));

  const int64_t panels = c.panels * problem.groups;
  const int64_t runs_of_panel = ceil_div(conv.group_k, shared.kernels.filters);
  const int64_t runs = panels * runs_of_panel;
  // A thread that packs few panels for itself takes one share; otherwise a share is half a panel at
  // least, or two runs where panels are packed already.
  const bool few = panels < 8 * threads;
  const int64_t min_runs =
      c.packed_first ? 2 : (few ? ceil_div(runs, threads) : ceil_div(runs_of_panel, 2));
  std::atomic<int64_t> packed{0}, taken{0};
  run_parallel(threads, [&](const TeamMember& member) {
    if (c.packed_first) {
      pack_all(shared, panels, packed);
      member.wait_for_team();
    }
    std::byte* const slot = static_cast<std::byte*>(launch.workspace) + c.shared_bytes() +
                            static_cast<std::size_t>(member.thread) * c.slot_bytes();
    for (;;) {
      const Runs share = take_runs(taken, runs, runs_of_panel, min_runs, threads);
      if (share.begin == share.end) break;
      multiply_share(shared, share, runs_of_panel, slot);
    }
  });
}

template <class Real>
Support supports(const ConvProblem& problem, const DeviceInfo& device) {
  if (const Support usual = forward_in<Real>(problem); !usual) return usual;
  // A double cannot overflow, so it checks the bytes first.
  double bytes =
      static_cast<double>(problem.k) * static_cast<double>(problem.terms()) * double{sizeof(Real)};
  if (bytes <= workspace_limit_bytes) {
    const PanelCut c = panel_cut<Real>(problem, std::max(device.units, 1));
    bytes = static_cast<double>(c.bytes(1));
  }
  if (bytes > workspace_limit_bytes)
    return {Reason::too_large, fmt::format("needs {} bytes for the packed filters and a panel; "
                                           "expected at most {}",
                                           static_cast<std::uint64_t>(std::min(bytes, 0x1p63)),
                                           workspace_limit_bytes)};
  return {};
}

/// The estimate has the products and the packing at most of the nominal rate, plus the time to move
/// the tensors and the packed filters once.
template <class Real>
double estimate_seconds(const ConvProblem& problem, const DeviceInfo& device) {
  if (problem.n == 0) return 0;
  const PanelCut c = panel_cut<Real>(problem, std::max(device.units, 1));
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  // Packing an element, or a piece of a row (one for each term and row), takes as long as this
  // number of products.
  const bool in_squares = problem.x_strides[1] == 1 && problem.c / problem.groups >= 8;
  const double copy_of_an_element = problem.x_strides[3] == 1 || in_squares ? 5 : 40;
  const double copy_of_a_row = 200;
  const double rows_of_panel = number(c.width) / number(problem.q()) + 1;
  const double copied = lies_as_panel(problem)
                            ? 0
                            : number(problem.terms()) * (number(c.width) * copy_of_an_element +
                                                         rows_of_panel * copy_of_a_row);
  const double filters = number(problem.k / problem.groups);
  const double products = number(c.width) * filters * number(problem.terms());
  // A row of a filter's outputs is stored by itself. One of few outputs, as the gradient of a small
  // filter has, takes as long as this number of products.
  const double store_of_a_row = 200;
  const double stored = problem.q() < 4 ? filters * rows_of_panel * store_of_a_row : 0;
  const double packed = number(problem.k) * number(problem.terms());
  const double rate = 0.9 * device.nominal_fp32_flop_per_second * sizeof(float) / sizeof(Real);
  const double all =
      number(c.panels) * number(problem.groups) * (products + copied + stored) + 8 * packed;
  return 2 * (all + products_of_turning(problem) + products_of_scattering(problem)) / rate +
         problem.bytes() / device.nominal_bytes_per_second;
}

template <class Real>
constexpr ConvAlgorithm algorithm(std::string_view name, Operand operand, Accumulator sums) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = sums,
                   .reproducible = true,
                   .invariant = true},
      .accumulates = true,
      .reproduces = multiplies_and_adds_at_once,
      .plan = plan_of_parts<supports<Real>, estimate_seconds<Real>, workspace_bytes<Real>,
                            packed_bytes<Real>>,
      .pack_filters = pack_without_plan<pack_filters<Real>>,
      .launch = without_plan<launch<Real>>,
  };
}

}  // namespace

const ConvAlgorithm conv_panels_fp32 =
    algorithm<float>("cpu.conv.panels.fp32", Operand::fp32, Accumulator::fp32_fma);
const ConvAlgorithm conv_panels_fp64 =
    algorithm<double>("cpu.conv.panels.fp64", Operand::fp64, Accumulator::fp64_fma);

}  // namespace plumb
