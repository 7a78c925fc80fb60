// Convolution on the CPU for many channels: outputs of all images are counted through and cut into
// panels of neighbours; for each, what they are multiplied with is copied into a piece of the
// matrix that im2col would make, [term][output], a block of terms at a time, and multiplied by all
// filters. With many filters the copy costs little, and nothing is wasted at the ends of rows and
// images, whatever their sizes. The filters are packed on every launch.
//
// Where there are panels for all threads, each has panels of its own, in its level-2 cache. Where
// there are fewer, all threads first copy the panels together, and then share the filters out.
// A 1x1 convolution of images that lie as a panel would is not copied at all.
//
// Each output is summed in the order of its terms, so that results are the same bits however the
// work is cut and whoever does it.
#include "cpu_reference/conv_panels.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstddef>

#include "cpu_reference/blocks.hpp"
#include "cpu_reference/conv_launch.hpp"

namespace plumb {
namespace {

using std::int64_t;

/// How a problem is cut, and the memory that takes.
struct Cut {
  int64_t width, panels;    ///< outputs of a panel; panels of a group
  int64_t block, blocks;    ///< terms of a block
  int64_t panel_reals;      ///< that a panel takes, with what is written beyond it
  int64_t filters, chunks;  ///< filters that a task has, at most; tasks of a panel
  bool together;            ///< panels are copied by all threads, and kept until all is done
  std::size_t filters_bytes, bias_bytes, offsets_bytes, panels_bytes, panel_bytes, sums_bytes;

  std::size_t shared_bytes() const {
    return filters_bytes + bias_bytes + offsets_bytes + panels_bytes;
  }
  std::size_t slot_bytes() const { return panel_bytes + sums_bytes; }
  /// Threads that there is room for.
  int threads(int wanted) const {
    return static_cast<int>(threads_with_room(wanted, shared_bytes(), slot_bytes()));
  }
};

/// Whether a panel's part of the image lies as the panel would.
bool lies_as_panel(const ConvProblem& p) {
  return p.r == 1 && p.s == 1 && p.stride == Pair{} && p.padding == Padding{} &&
         p.x_strides == dense_strides(p.x_extents());
}

template <class Real>
Cut cut(const ConvProblem& p, int threads) {
  // A multiple of the tiles' widths: a panel of a block's terms takes part of a level-2 cache, and
  // the sums of a task's filters another. Blocks are long, so that sums are seldom put aside.
  constexpr int64_t most_width = 96, most_terms = 512 * sizeof(float) / sizeof(Real);
  constexpr int64_t most_filters_of_task = 512;
  const int64_t image = p.p() * p.q(), group_k = p.k / p.groups;
  const int64_t outputs = std::max<int64_t>(p.n, 1) * image;
  const auto bytes_of = [](int64_t reals) { return padded(reals * int64_t{sizeof(Real)}); };
  Cut cut{};
  cut.panels = ceil_divide(outputs, most_width);
  cut.width = round_up(ceil_divide(outputs, cut.panels), product_places);
  cut.panels = ceil_divide(outputs, cut.width);
  cut.blocks = ceil_divide(p.terms(), most_terms);
  cut.block = ceil_divide(p.terms(), cut.blocks);
  cut.chunks = ceil_divide(group_k, most_filters_of_task);
  const int64_t enough_tasks = 4 * int64_t{threads}, panels = cut.panels * p.groups;
  cut.panel_reals = (cut.block + 1) * cut.width;
  cut.filters_bytes = bytes_of(p.k * p.terms());
  cut.bias_bytes = bytes_of(p.k);
  cut.offsets_bytes = padded(2 * cut.block * int64_t{sizeof(int64_t)});
  const std::size_t panels_bytes = bytes_of(panels * cut.blocks * cut.panel_reals);
  const std::size_t with_panels =
      cut.shared_bytes() + panels_bytes + bytes_of(round_up(group_k, product_filters) * cut.width);
  cut.together = panels < enough_tasks && threads > 1 && with_panels <= workspace_limit_bytes;
  if (cut.together)
    cut.chunks = std::clamp(ceil_divide(enough_tasks, panels), cut.chunks,
                            std::max(cut.chunks, group_k / (2 * product_filters)));
  cut.filters = round_up(ceil_divide(group_k, cut.chunks), product_filters);
  cut.chunks = ceil_divide(group_k, cut.filters);
  cut.panels_bytes = cut.together ? panels_bytes : 0;
  cut.panel_bytes = cut.together ? 0 : bytes_of(cut.panel_reals);
  // Only where terms are left for another block does anything outlive a run of filters.
  cut.sums_bytes = bytes_of((cut.blocks > 1 ? cut.filters : product_filters) * cut.width);
  return cut;
}

template <class Real>
std::size_t workspace_bytes(const ConvProblem& problem, const DeviceInfo& device) {
  if (problem.n == 0) return 0;
  const Cut c = cut<Real>(problem, std::max(device.units, 1));
  const int threads = c.threads(std::max(device.units, 1));
  return c.shared_bytes() + static_cast<std::size_t>(threads) * c.slot_bytes();
}

/// Calls `f(row, place)` for the rows of a panel's outputs.
template <class F>
void for_each_row(const ConvShape& conv, const Panel& panel, const F& f) {
  const int64_t outputs = conv.p * conv.q;
  for (int64_t place = 0; place < panel.count;) {
    const int64_t i = panel.first + place, q = i % conv.q;
    const int64_t count = std::min(conv.q - q, panel.count - place);
    f(OutputRow{i / outputs, panel.group, i % outputs / conv.q, q, count}, place);
    place += count;
  }
}

/// What all tasks read.
template <class Real>
struct Shared {
  const ConvShape& conv;
  const Cut& cut;
  const ConvKernels<Real>& kernels;
  const int64_t *panel_offsets, *image_offsets;  ///< of a block's terms
  const Real* filters;
  const Real* bias;  ///< of all filters, or null
  bool in_y;         ///< whether sums may be formed in y, for the outputs of one image
  bool in_x;         ///< whether images may stand in for panels
};

/// Where the values of a panel lie.
template <class Real>
struct Values {
  const Real* first;
  const int64_t* offsets;
  bool image;  ///< in x itself, where the next panel follows
};

/// Adds a block of terms to the sums of a panel and some filters.
template <class Real>
void add_block(const Shared<Real>& shared, const Panel& panel, const Values<Real>& values,
               FilterRange task, Real* staged) {
  const ConvShape& conv = shared.conv;
  const Cut& cut = shared.cut;
  const ConvKernels<Real>& kernels = shared.kernels;
  const bool first = panel.first_term == 0, last = panel.first_term + panel.terms == conv.terms();
  const int64_t outputs = conv.p * conv.q, n = panel.first / outputs;
  const bool one_image = (panel.first + panel.count - 1) / outputs == n;
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
    // The first runs fetch the next panel's lines, one in each tile.
    const int64_t line = (k - task.k) / kernels.filters * (64 / int64_t{sizeof(Real)});
    const bool nan =
        kernels.sum({.x = values.first,
                     .offsets = values.offsets,
                     .terms = panel.terms,
                     .ahead = values.image && line < cut.width ? cut.width + line : 0,
                     .w = shared.filters + of_all * conv.terms() + panel.first_term * range.count,
                     .filters = range.count,
                     .begin = first ? nullptr : kept,
                     .begin_step = cut.width,
                     .sums = sums,
                     .step = step,
                     .count = panel.count,
                     .rows = 1,
                     .x_row = 0,
                     .sums_row = 0,
                     .bias = last && shared.bias ? shared.bias + of_all : nullptr,
                     .relu = last && conv.relu,
                     .find_nan = last && conv.padded});
    k += range.count;
    if (!last || (!nan && sums != kept)) continue;
    for_each_row(conv, panel, [&](const OutputRow& row, int64_t place) {
      if (nan) kernels.mend(conv, row, range, sums + place, step);
      if (sums == kept) kernels.store(conv, row, range, sums + place, step);
    });
  }
}

/// The panel's values in x itself, if they are neighbours there and may be read to a whole vector.
template <class Real>
const Real* in_image(const Shared<Real>& shared, const Panel& panel) {
  const ConvShape& conv = shared.conv;
  const int64_t image = conv.p * conv.q, n = panel.first / image;
  if (!shared.in_x || (panel.first + panel.count - 1) / image != n) return nullptr;
  const int64_t at = n * conv.x_n + (panel.group * conv.group_c + panel.first_term) * conv.x_c +
                     panel.first % image;
  if (at + (panel.terms - 1) * conv.x_c + panel.count + product_places > conv.x_elements)
    return nullptr;
  return static_cast<const Real*>(conv.x) + at;
}

template <class Real>
void launch(const ConvLaunch& launch) {
  const ConvProblem& problem = launch.problem;
  if (problem.n == 0) return;
  const Cut c = cut<Real>(problem, std::max(launch.device.units, 1));
  const ConvShape conv = shape_of(launch);
  const ConvKernels<Real>& kernels = conv_kernels<Real>(launch.device);
  std::byte* const workspace = static_cast<std::byte*>(launch.workspace);
  auto* const filters = reinterpret_cast<Real*>(workspace);
  auto* const bias = reinterpret_cast<Real*>(workspace + c.filters_bytes);
  auto* const offsets = reinterpret_cast<int64_t*>(workspace + c.filters_bytes + c.bias_bytes);
  std::byte* const panels = workspace + c.shared_bytes() - c.panels_bytes;
  const int threads = std::min(c.threads(std::max(launch.device.units, 1)),
                               worthwhile_threads(problem, omp_get_max_threads()));
  for (int64_t term = 0; term < c.block; ++term) {
    offsets[term] = term * c.width;
    offsets[c.block + term] = term * conv.x_c;
  }
  pack_filters(conv, problem.groups, kernels, threads, filters);
  if (launch.bias) widen_bias(conv, problem.k, bias);
  const Shared<Real> shared{
      .conv = conv,
      .cut = c,
      .kernels = kernels,
      .panel_offsets = offsets,
      .image_offsets = offsets + c.block,
      .filters = filters,
      .bias = launch.bias ? bias : nullptr,
      .in_y = sums_fit_y<Real>(conv) && (conv.y_p == conv.q || conv.p == 1),
      .in_x = lies_as_panel(problem) && size_in_bytes(problem.dtype) == sizeof(Real)};

  const int64_t outputs = problem.n * conv.p * conv.q;
  const auto panel_of = [&](int64_t i, int64_t block) {
    const int64_t first = i % c.panels * c.width, term = block * c.block;
    return Panel{.group = i / c.panels,
                 .first = first,
                 .count = std::min(c.width, outputs - first),
                 .first_term = term,
                 .terms = std::min(c.block, conv.terms() - term),
                 .width = c.width};
  };
  const int64_t count = c.panels * problem.groups;
  const auto kept_panel = [&](int64_t i, int64_t block) {
    return reinterpret_cast<Real*>(panels) + (i * c.blocks + block) * c.panel_reals;
  };
  // A thread that goes on to the next panel finds it fetched.
  const int neighbours = c.together ? 1 : 4;
#pragma omp parallel num_threads(threads)
  {
    if (c.together) {
#pragma omp for schedule(dynamic)
      for (int64_t task = 0; task < count * c.blocks; ++task) {
        const Panel panel = panel_of(task / c.blocks, task % c.blocks);
        if (!in_image(shared, panel))
          kernels.load_panel(conv, panel, kept_panel(task / c.blocks, task % c.blocks));
      }
    }
    std::byte* const slot = workspace + c.shared_bytes() +
                            static_cast<std::size_t>(omp_get_thread_num()) * c.slot_bytes();
    auto* const own_panel = reinterpret_cast<Real*>(slot);
    auto* const staged = reinterpret_cast<Real*>(slot + c.panel_bytes);
#pragma omp for schedule(dynamic, neighbours)
    for (int64_t task = 0; task < count * c.chunks; ++task) {
      const int64_t i = task / c.chunks;
      FilterRange range{.k = task % c.chunks * c.filters, .count = c.filters};
      range.count = std::min(range.count, conv.group_k - range.k);
      for (int64_t block = 0; block < c.blocks; ++block) {
        const Panel panel = panel_of(i, block);
        Values<Real> values{in_image(shared, panel), shared.image_offsets, true};
        if (!values.first) {
          Real* const copied = c.together ? kept_panel(i, block) : own_panel;
          if (!c.together) kernels.load_panel(conv, panel, copied);
          values = {copied, shared.panel_offsets, false};
        }
        add_block(shared, panel, values, range, staged);
      }
    }
  }
}

template <class Real>
Support supports(const ConvProblem& problem, const DeviceInfo& device) {
  if (const Support usual = forward_in<Real>(problem); !usual) return usual;
  // In double first, because it cannot overflow.
  double bytes =
      static_cast<double>(problem.k) * static_cast<double>(problem.terms()) * double{sizeof(Real)};
  if (bytes <= workspace_limit_bytes) {
    const Cut c = cut<Real>(problem, std::max(device.units, 1));
    bytes = static_cast<double>(c.shared_bytes() + c.slot_bytes());
  }
  if (bytes > workspace_limit_bytes)
    return {Reason::too_large, fmt::format("needs {:.0f} bytes for the packed filters and a panel; "
                                           "expected at most {}",
                                           bytes, workspace_limit_bytes)};
  return {};
}

/// Most of the nominal rate for the products, and for what is copied on the way; the tensors and
/// the packed filters moved once.
template <class Real>
double estimate_seconds(const ConvProblem& problem, const DeviceInfo& device) {
  if (problem.n == 0) return 0;
  const Cut c = cut<Real>(problem, std::max(device.units, 1));
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  // In products: an element of a panel, and a piece of a row, of which there is one a term and row.
  const double copy_of_an_element = problem.x_strides[3] == 1 ? 2.5 : 8, copy_of_a_row = 100;
  const double rows_of_panel = number(c.width) / number(problem.q()) + 1;
  const double copied = number(problem.terms()) *
                        (number(c.width) * copy_of_an_element + rows_of_panel * copy_of_a_row);
  const double filters = number(problem.k / problem.groups);
  const double products = number(c.width) * filters * number(problem.terms());
  const double packed = number(problem.k) * number(problem.terms());
  const double rate = 0.9 * device.nominal_fp32_flop_per_second * sizeof(float) / sizeof(Real);
  return 2 *
             (number(c.panels) * number(problem.groups) * (products + number(c.chunks) * copied) +
              8 * packed) /
             rate +
         problem.bytes() / device.nominal_bytes_per_second;
}

template <class Real>
constexpr ConvAlgorithm algorithm(std::string_view name, Operand operand, Accumulator sums) {
  return {.name = name,
          .numerics = {.operand = operand, .accumulator = sums},
          .supports = &supports<Real>,
          .workspace_bytes = &workspace_bytes<Real>,
          .estimate_seconds = &estimate_seconds<Real>,
          .launch = &launch<Real>};
}

}  // namespace

const ConvAlgorithm conv_panels_fp32 =
    algorithm<float>("cpu.conv.panels.fp32", Operand::fp32, Accumulator::fp32_fma);
const ConvAlgorithm conv_panels_fp64 =
    algorithm<double>("cpu.conv.panels.fp64", Operand::fp64, Accumulator::fp64_fma);

}  // namespace plumb
