// Direct convolution on the CPU: cuts the problem into bands of output rows, copies the input of
// each into planes (conv_block.hpp), and hands the bands out to threads.
//
// The cut depends on the problem alone, and each output is summed in the order of its terms, so
// that results are the same bits for any number of threads.
#include "cpu_reference/conv_direct.hpp"

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
  Planes planes;
  bool in_x;            ///< whether x itself may stand in for planes
  int64_t rows, bands;  ///< output rows of a band, at most; bands of an image and group
  int64_t run_rows;     ///< output rows of a run whose sums are staged
  int64_t places;       ///< of such a run, with what is dropped
  double rows_copied, elements_copied;  ///< for an image and group
  std::size_t offsets_bytes, filters_bytes, bias_bytes, planes_bytes, sums_bytes;

  std::size_t shared_bytes() const { return offsets_bytes + bias_bytes; }
  std::size_t slot_bytes() const { return planes_bytes + sums_bytes; }
  /// The packed filters count towards the limit wherever they lie: what runs, and how it is cut,
  /// does not depend on who keeps them.
  std::size_t bytes(int threads) const {
    return filters_bytes + shared_bytes() + static_cast<std::size_t>(threads) * slot_bytes();
  }
  /// Threads that there is room for.
  int threads(int wanted) const {
    return static_cast<int>(
        threads_with_room(wanted, filters_bytes + shared_bytes(), slot_bytes()));
  }
};

/// Rows of outputs that are made together, and those that are made at all: pooling takes pairs.
int64_t rows_together(const ConvProblem& p) { return p.pool == Pool::none ? 1 : 2; }
int64_t rows_made(const ConvProblem& p) { return p.p() / rows_together(p) * rows_together(p); }

/// The stride as taps see it: without a second output along a direction, one plane holds all taps.
int64_t step_of(int64_t stride, int64_t outputs) { return outputs > 1 ? stride : 1; }

/// Places of a run of so many rows.
int64_t places_of(int64_t rows, int64_t pitch, int64_t q) { return (rows - 1) * pitch + q; }

/// The rows of a run, a multiple of `unit`, of which most places are outputs; among equals the
/// most, up to what stays in a level-1 cache for a few filters.
int64_t fullest_run(int64_t pitch, int64_t q, int64_t most_rows, int64_t unit) {
  constexpr int64_t most_places = 768;
  const auto places = [&](int64_t rows) {
    return round_up(places_of(rows, pitch, q), product_places);
  };
  int64_t best = unit;
  for (int64_t rows = 2 * unit; rows <= most_rows && rows * pitch <= most_places; rows += unit)
    if (rows * places(best) >= best * places(rows)) best = rows;
  return best;
}

/// Whether the input of a band lies in x as its planes would, one a channel: an image without
/// padding, with a stride of 1, and whole where a channel's plane follows another's.
template <class Real>
bool lies_as_planes(const ConvProblem& p, const Cut& cut) {
  return size_in_bytes(p.dtype) == sizeof(Real) && p.padding == Padding{} &&
         cut.planes.row_planes == 1 && cut.planes.column_planes == 1 && cut.planes.pitch == p.w &&
         p.x_strides == dense_strides(p.x_extents()) && (cut.bands == 1 || p.c == p.groups);
}

/// The cut with a plane for each column of the filter, or for each remainder.
template <class Real>
Cut cut(const ConvProblem& p, bool own_columns) {
  // The input of a band stays in a level-2 cache, and all threads have bands.
  constexpr int64_t planes_bytes = 384 << 10, enough_bands = 64;
  const int64_t step_h = step_of(p.stride.h, p.p()), step_w = step_of(p.stride.w, p.q());
  const int64_t reach_h = (p.r - 1) * p.dilation.h / step_h;
  const int64_t reach_w = own_columns ? 0 : (p.s - 1) * p.dilation.w / step_w;
  Cut cut{};
  cut.planes.row_planes = std::min(step_h, (p.r - 1) * p.dilation.h + 1);
  cut.planes.column_planes = own_columns ? p.s : std::min(step_w, (p.s - 1) * p.dilation.w + 1);
  cut.planes.column_step = own_columns ? p.dilation.w : 1;
  cut.planes.pitch = p.q() + reach_w;
  const int64_t planes = p.c / p.groups * cut.planes.row_planes * cut.planes.column_planes;
  const int64_t row_bytes = planes * cut.planes.pitch * int64_t{sizeof(Real)};
  const int64_t in_cache = planes_bytes / std::max<int64_t>(row_bytes, 1) - reach_h;
  const int64_t images = std::max<int64_t>(p.n, 1) * p.groups;
  const int64_t made = rows_made(p), unit = rows_together(p);
  const int64_t in_parallel = ceil_divide(made, ceil_divide(enough_bands, images));
  // A band shorter than the filter loads more than it makes.
  const int64_t most = std::max<int64_t>({1, std::min(in_cache, in_parallel), reach_h});
  cut.bands = ceil_divide(made, std::min(most, made));
  cut.rows = round_up(ceil_divide(made, cut.bands), unit);
  cut.bands = ceil_divide(made, cut.rows);
  cut.planes.rows = cut.rows + reach_h;
  cut.planes.plane = round_up(cut.planes.rows * cut.planes.pitch, 16);
  // Planes a power of two apart would share the few lines of one set of a cache.
  if (cut.planes.plane % 256 == 0) cut.planes.plane += 16;
  cut.in_x = !own_columns && lies_as_planes<Real>(p, cut);
  if (cut.in_x) cut.planes.plane = p.x_strides[1];
  cut.run_rows = fullest_run(cut.planes.pitch, p.q(), cut.rows, unit);
  cut.places = round_up(places_of(cut.run_rows, cut.planes.pitch, p.q()), product_places);
  cut.rows_copied = cut.in_x ? 0
                             : static_cast<double>(cut.bands) * static_cast<double>(planes) *
                                   static_cast<double>(cut.planes.rows);
  cut.elements_copied = cut.rows_copied * static_cast<double>(cut.planes.pitch);
  cut.offsets_bytes = padded(p.terms() * int64_t{sizeof(int64_t)});
  cut.filters_bytes = padded(p.k * p.terms() * int64_t{sizeof(Real)});
  cut.bias_bytes = padded(p.k * int64_t{sizeof(Real)});
  // Runs are read to a multiple of the longest vector beyond the last place, in the last plane too.
  cut.planes_bytes =
      padded((planes * cut.planes.plane + reach_w + 2 * product_places) * int64_t{sizeof(Real)});
  // Stored in whole vectors, the last of which is read beyond the last sum.
  cut.sums_bytes = padded((product_filters * cut.places + product_places) * int64_t{sizeof(Real)});
  return cut;
}

/// In products: those of all places, dropped ones among them, and what copying takes instead.
double work(const ConvProblem& p, const Cut& cut) {
  constexpr double copy_of_a_row = 40;
  // Columns that are not neighbours lie in a cache line each.
  const double copy_of_an_element = p.x_strides[3] != 1 ? 120 : (p.stride.w == 1 ? 2.5 : 8);
  const int64_t rest = cut.rows % cut.run_rows;
  const int64_t places =
      cut.rows / cut.run_rows * cut.places +
      (rest > 0 ? round_up(places_of(rest, cut.planes.pitch, p.q()), product_places) : 0);
  return static_cast<double>(cut.bands) * static_cast<double>(places) *
             static_cast<double>(p.k / p.groups) * static_cast<double>(p.terms()) +
         copy_of_an_element * cut.elements_copied + copy_of_a_row * cut.rows_copied;
}

template <class Real>
Cut cut(const ConvProblem& problem) {
  const Cut own = cut<Real>(problem, true), shared = cut<Real>(problem, false);
  const bool fits = own.bytes(1) <= workspace_limit_bytes;
  return fits && work(problem, own) < work(problem, shared) ? own : shared;
}

/// Whether each column of the filter has a plane of its own.
bool own_columns(const ConvShape& conv, const Planes& planes) {
  return planes.pitch == conv.q && planes.column_planes == conv.s;
}

/// Where each term of an output lies in the planes, from the output's place.
void place_terms(const ConvShape& conv, const Planes& planes, int64_t* offsets) {
  const bool own = own_columns(conv, planes);
  for (int64_t c = 0; c < conv.group_c; ++c)
    for (int64_t r = 0; r < conv.r; ++r)
      for (int64_t s = 0; s < conv.s; ++s) {
        const int64_t down = r * conv.dilation.h, right = s * conv.dilation.w;
        const int64_t row_plane = down % conv.stride.h, row = down / conv.stride.h;
        const int64_t column_plane = own ? s : right % conv.stride.w;
        const int64_t column = own ? 0 : right / conv.stride.w;
        *offsets++ = ((c * planes.row_planes + row_plane) * planes.column_planes + column_plane) *
                         planes.plane +
                     row * planes.pitch + column;
      }
}

template <class Real>
std::size_t workspace_bytes(const ConvProblem& problem, const DeviceInfo& device) {
  if (problem.n == 0) return 0;
  const Cut c = cut<Real>(problem);
  const int threads = c.threads(std::max(device.units, 1));
  return c.bytes(threads) - c.filters_bytes;
}

/// Terms that are summed together. Where each column has a plane of its own, a tile reads a few
/// lines of every row of the filter, most of which the next tile reads too: terms of so many
/// channels that these, and the filters, stay in a level-1 cache as tiles go along a run.
template <class Real>
int64_t block_of(const ConvShape& conv, const Planes& planes, const ConvKernels<Real>& kernels) {
  constexpr int64_t in_cache = 16 << 10, enough_terms = 96;
  const int64_t taps = conv.r * conv.s, tile = kernels.tile_places;
  const int64_t reach = (conv.r - 1) * conv.dilation.h / planes.row_planes * planes.pitch;
  // Sums that are put down between blocks cost more than few lines that are read again.
  if (!kernels.blocks_terms || !own_columns(conv, planes) || reach < 3 * tile) return conv.terms();
  const int64_t read = planes.row_planes * planes.column_planes * (reach + tile);
  const int64_t channel_bytes = (read + taps * kernels.filters) * int64_t{sizeof(Real)};
  const int64_t most = std::max(in_cache / channel_bytes, ceil_divide(enough_terms, taps));
  return ceil_divide(conv.group_c, ceil_divide(conv.group_c, most)) * taps;
}

/// What all bands read.
template <class Real>
struct Shared {
  const ConvShape& conv;
  const Cut& cut;
  const ConvKernels<Real>& kernels;
  const int64_t* offsets;
  const Real* filters;
  const Real* bias;  ///< of all filters, or null
  int64_t block;     ///< terms that are summed together
  bool flat;         ///< whether a band's outputs are neighbours in the planes and in y
};

/// All filters for rows [row, row + rows) of a band, whose first output is `first`. Sums are formed
/// in y where there is no place to stage them.
template <class Real>
void sum_rows(const Shared<Real>& shared, const Real* planes, const OutputRow& first, int64_t row,
              int64_t rows, Real* staged) {
  const auto& [conv, cut, kernels, offsets, filters, bias, block, flat] = shared;
  const int64_t terms = conv.terms(), pitch = cut.planes.pitch;
  const bool in_y = !staged, row_by_row = in_y && !flat;
  // From one row of sums to the next.
  const int64_t sums_row = in_y ? conv.y_p : pitch;
  for (int64_t k = 0; k < conv.group_k;) {
    const int64_t of_all = first.group * conv.group_k + k;
    const FilterRange range{.k = k, .count = run_filters(conv.group_k - k, kernels.filters)};
    Real* const sums = in_y ? static_cast<Real*>(conv.y) + first.n * conv.y_n + of_all * conv.y_k +
                                  (first.p + row) * conv.y_p
                            : staged;
    const int64_t step = in_y ? conv.y_k : cut.places;
    const Real* const packed = filters + of_all * terms;
    bool nan = false;
    for (int64_t term = 0; term < terms; term += block) {
      const bool last = term + block >= terms;
      nan = kernels.sum({.x = planes + row * pitch,
                         .offsets = offsets + term,
                         .terms = last ? terms - term : block,
                         .fetched_offsets = nullptr,
                         .fetched = 0,
                         .ahead = 0,
                         .w = packed + term * range.count,
                         .filters = range.count,
                         .begin = term > 0 ? sums : nullptr,
                         .begin_step = step,
                         .sums = sums,
                         .step = step,
                         .count = row_by_row ? conv.q : places_of(rows, pitch, conv.q),
                         .rows = row_by_row ? rows : 1,
                         .x_row = pitch,
                         .sums_row = sums_row,
                         .bias = last && bias ? bias + of_all : nullptr,
                         .relu = last && conv.relu,
                         .find_nan = last && conv.padded});
    }
    for (int64_t i = 0; (nan || !in_y) && i < rows; ++i) {
      const OutputRow outputs{first.n, first.group, first.p + row + i, 0, conv.q};
      if (nan) kernels.mend(conv, outputs, range, packed, sums + i * sums_row, step);
      if (!in_y && !conv.pooled) kernels.store(conv, outputs, range, sums + i * sums_row, step);
    }
    for (int64_t i = 0; conv.pooled && i < rows; i += 2) {
      const OutputRow outputs{first.n, first.group, first.p + row + i, 0, conv.q};
      kernels.store_pooled(conv, outputs, range, sums + i * pitch, step, pitch);
    }
    k += range.count;
  }
}

/// The planes of a band in x itself, if they lie there and may be read to a whole vector.
template <class Real>
const Real* in_image(const ConvShape& conv, const Cut& cut, const OutputRow& first) {
  const int64_t at =
      first.n * conv.x_n + first.group * conv.group_c * conv.x_c + first.p * conv.x_h;
  const int64_t read = (conv.group_c - 1) * conv.x_c + cut.planes.rows * conv.x_h + product_places;
  return cut.in_x && at + read <= conv.x_elements ? static_cast<const Real*>(conv.x) + at : nullptr;
}

template <class Real>
void launch(const ConvLaunch& launch) {
  const ConvProblem& problem = launch.problem;
  if (problem.n == 0) return;
  const Cut c = cut<Real>(problem);
  ConvShape conv = shape_of(launch);
  conv.stride = {step_of(conv.stride.h, conv.p), step_of(conv.stride.w, conv.q)};
  const ConvKernels<Real>& kernels = conv_kernels<Real>(launch.device);
  std::byte* const workspace = static_cast<std::byte*>(launch.workspace);
  auto* const offsets = reinterpret_cast<int64_t*>(workspace);
  auto* const bias = reinterpret_cast<Real*>(workspace + c.offsets_bytes);
  const int threads = std::min(c.threads(std::max(launch.device.units, 1)),
                               worthwhile_threads(problem, omp_get_max_threads()));
  place_terms(conv, c.planes, offsets);
  if (launch.bias) widen_bias(conv, problem.k, bias);
  const bool flat = c.planes.pitch == conv.q && (conv.y_p == conv.q || conv.p == 1);
  const Shared<Real> shared{conv,
                            c,
                            kernels,
                            offsets,
                            static_cast<const Real*>(launch.filters),
                            launch.bias ? bias : nullptr,
                            block_of(conv, c.planes, kernels),
                            flat};
  // A run's sums are formed in y where they are neighbours there.
  const bool in_y = !conv.pooled && sums_fit_y<Real>(conv) && (flat || c.run_rows == 1);
  const int64_t tasks = problem.n * problem.groups * c.bands;
  // Of depthwise convolutions each is a few microseconds' work.
  const int64_t taken_at_once = std::clamp<int64_t>(tasks / (64 * threads), 1, 16);
#pragma omp parallel for schedule(dynamic, taken_at_once) num_threads(threads)
  for (int64_t task = 0; task < tasks; ++task) {
    std::byte* const slot = workspace + c.shared_bytes() +
                            static_cast<std::size_t>(omp_get_thread_num()) * c.slot_bytes();
    auto* const staged = reinterpret_cast<Real*>(slot + c.planes_bytes);
    const OutputRow first{.n = task / c.bands / problem.groups,
                          .group = task / c.bands % problem.groups,
                          .p = task % c.bands * c.rows,
                          .q = 0,
                          .count = conv.q};
    const int64_t rows = std::min(c.rows, rows_made(problem) - first.p);
    const Real* planes = in_image<Real>(conv, c, first);
    if (!planes) {
      kernels.load_planes(conv, c.planes, first, reinterpret_cast<Real*>(slot));
      planes = reinterpret_cast<Real*>(slot);
    }
    const int64_t run_rows = in_y ? rows : c.run_rows;
    for (int64_t row = 0; row < rows; row += run_rows)
      sum_rows(shared, planes, first, row, std::min(run_rows, rows - row), in_y ? nullptr : staged);
  }
}

template <class Real>
Support supports(const ConvProblem& problem, const DeviceInfo&) {
  if (const Support usual = forward_in<Real>(problem); !usual) return usual;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  // In double first, because it cannot overflow: the filters, and the input of a row of outputs.
  const double filters = number(problem.k) * number(problem.terms());
  const double row = number(problem.c / problem.groups) *
                     number((problem.r - 1) * problem.dilation.h + 1) *
                     (number(problem.q()) * number(problem.stride.w) +
                      number((problem.s - 1) * problem.dilation.w + 1));
  double bytes = sizeof(Real) * (filters + row);
  if (bytes <= workspace_limit_bytes) {
    const Cut c = cut<Real>(problem);
    bytes = static_cast<double>(c.bytes(1));
  }
  if (bytes > workspace_limit_bytes)
    return {Reason::too_large,
            fmt::format("needs {:.0f} bytes for the filters and the input of a few rows; expected "
                        "at most {}",
                        bytes, workspace_limit_bytes)};
  return {};
}

/// Most of the nominal rate for all places, those that are dropped among them, and for what is
/// copied on the way; the tensors moved once.
template <class Real>
double estimate_seconds(const ConvProblem& problem, const DeviceInfo& device) {
  if (problem.n == 0) return 0;
  const double images = static_cast<double>(problem.n) * static_cast<double>(problem.groups);
  const double rate = 0.85 * device.nominal_fp32_flop_per_second * sizeof(float) / sizeof(Real);
  return images * 2 * work(problem, cut<Real>(problem)) / rate +
         problem.bytes() / device.nominal_bytes_per_second;
}

template <class Real>
constexpr ConvAlgorithm algorithm(std::string_view name, Operand operand, Accumulator sums) {
  return {.name = name,
          .numerics = {.operand = operand, .accumulator = sums},
          .fuses_pool = true,
          .supports = &supports<Real>,
          .workspace_bytes = &workspace_bytes<Real>,
          .estimate_seconds = &estimate_seconds<Real>,
          .filter_bytes = &packed_bytes<Real>,
          .pack_filters = &pack_filters<Real>,
          .launch = &launch<Real>};
}

}  // namespace

const ConvAlgorithm conv_direct_fp32 =
    algorithm<float>("cpu.conv.direct.fp32", Operand::fp32, Accumulator::fp32_fma);
const ConvAlgorithm conv_direct_fp64 =
    algorithm<double>("cpu.conv.direct.fp64", Operand::fp64, Accumulator::fp64_fma);

}  // namespace plumb
