// Direct convolution on the CPU gives a thread a band of output rows: it copies the band's input
// into planes (planes.hpp), and runs the micro-kernel over them.
//
// The cut depends on the problem alone, and each output is summed in the order of its terms, so
// that results are the same bits for any number of threads.
#include "cpu_kernels/direct/conv_direct.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "core/src/parallel/parallel.hpp"
#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/conv/conv_launch.hpp"
#include "cpu_kernels/direct/direct_cut.hpp"

namespace plumb {
namespace {

using std::int64_t;

/// Says whether each column of the filter has a plane of its own.
bool own_columns(const ConvShape& conv, const Planes& planes) {
  return planes.pitch == conv.q && planes.column_planes == conv.s;
}

/// Fills in where each term of an output lies in the planes, counted from the output's position.
void fill_offsets(const ConvShape& conv, const Planes& planes, int64_t* offsets) {
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
  const Cuts c = cuts<Real>(problem);
  const int threads = c.threads(std::max(device.units, 1));
  return c.bytes(threads) - c.first.filters_bytes;
}

/// Returns the number of terms that a tile sums before the next tile. Where each filter column has
/// a plane, a tile reads a few lines for every filter row, and the next tile reads most of them
/// again. A block has so many channels that these lines and the filters stay in a level-1 cache
/// along a run.
template <class Real>
int64_t block_of(const ConvShape& conv, const Planes& planes, const ConvKernels<Real>& kernels) {
  constexpr int64_t in_cache = 16 << 10, enough_terms = 96;
  const int64_t taps = conv.r * conv.s, tile = kernels.tile_positions;
  const int64_t halo = (conv.r - 1) * conv.dilation.h / planes.row_planes * planes.pitch;
  // Storing and loading sums between blocks costs more than reading a few lines again.
  if (!kernels.blocks_terms || !own_columns(conv, planes) || halo < 3 * tile) return conv.terms();
  const int64_t read = planes.row_planes * planes.column_planes * (halo + tile);
  const int64_t channel_bytes = (read + taps * kernels.filters) * int64_t{sizeof(Real)};
  const int64_t max_channels = std::max(in_cache / channel_bytes, ceil_div(enough_terms, taps));
  return ceil_div(conv.group_c, ceil_div(conv.group_c, max_channels)) * taps;
}

/// The data that all bands share.
template <class Real>
struct Shared {
  ConvShape conv;
  Cut cut;
  const ConvKernels<Real>& kernels;
  const int64_t* offsets;
  const Real* filters;
  const Real* bias;  ///< bias of all filters, or null
  int64_t block;     ///< terms that are summed before the next tile
  bool flat;         ///< whether a band's outputs are neighbours in the planes and in y
  bool in_y;         ///< whether the sums grow in y; otherwise they are staged
};

/// Computes all filters for rows [row, row + rows) of a band, whose first output is `first`.
template <class Real>
void sum_rows(const Shared<Real>& shared, const Real* planes, const OutputRow& first, int64_t row,
              int64_t rows, Real* staged) {
  const auto& [conv, cut, kernels, offsets, filters, bias, block, flat, in_y] = shared;
  const int64_t terms = conv.terms(), pitch = cut.planes.pitch;
  const bool row_by_row = in_y && !flat;
  // This is the step from one row of sums to the next.
  const int64_t sums_row = in_y ? conv.y_p : pitch;
  for (int64_t k = 0; k < conv.group_k;) {
    const int64_t of_all = first.group * conv.group_k + k;
    const FilterRange range{.k = k, .count = run_filters(conv.group_k - k, kernels.filters)};
    Real* const sums = in_y ? static_cast<Real*>(conv.y) + first.n * conv.y_n + of_all * conv.y_k +
                                  (first.p + row) * conv.y_p
                            : staged;
    const int64_t step = in_y ? conv.y_k : cut.positions;
    const Real* const packed = filters + of_all * terms;
    bool nan = false;
    for (int64_t term = 0; term < terms; term += block) {
      const bool last = term + block >= terms;
      nan = kernels.micro_kernel({.x = planes + row * pitch,
                                  .offsets = offsets + term,
                                  .terms = last ? terms - term : block,
                                  .prefetch_offsets = nullptr,
                                  .prefetch_terms = 0,
                                  .prefetch_distance = 0,
                                  .w = packed + term * range.count,
                                  .filters = range.count,
                                  .partial = term > 0 ? sums : nullptr,
                                  .partial_step = step,
                                  .sums = sums,
                                  .step = step,
                                  .count = row_by_row ? conv.q : positions_of(rows, pitch, conv.q),
                                  .rows = row_by_row ? rows : 1,
                                  .x_row = pitch,
                                  .sums_row = sums_row,
                                  .bias = last && bias ? bias + of_all : nullptr,
                                  .relu = last && conv.relu_of_sums(),
                                  .find_nan = last && conv.padded,
                                  .plus_zero = last && conv.reproducible});
    }
    // Lambdas cannot capture what a structured binding names.
    const auto outputs = [&first, row, count = conv.q](int64_t i) {
      return OutputRow{first.n, first.group, first.p + row + i, 0, count};
    };
    for (int64_t i = 0; nan && i < rows; ++i)
      kernels.recompute(conv, outputs(i), range, packed, sums + i * sums_row, step);
    for (int64_t i = 0; conv.pooled && i < rows; i += 2)
      kernels.store_pooled(conv, outputs(i), range, sums + i * pitch, step, pitch);
    if (!in_y && !conv.pooled) kernels.store(conv, outputs(0), rows, range, sums, step, sums_row);
    k += range.count;
  }
}

/// Returns the planes of a band in x itself, or null where they do not lie there or whole vectors
/// would read beyond x.
template <class Real>
const Real* in_image(const ConvShape& conv, const Cut& cut, const OutputRow& first) {
  const int64_t at =
      first.n * conv.x_n + first.group * conv.group_c * conv.x_c + first.p * conv.x_h;
  const int64_t read = (conv.group_c - 1) * conv.x_c + cut.planes.rows * conv.x_h + max_lanes;
  const bool readable = cut.in_x && conv.x_readable.holds(at, at + read);
  return readable ? static_cast<const Real*>(conv.x) + at : nullptr;
}

/// Computes a band with a thread's own part of the workspace.
template <class Real>
void compute_band(const Shared<Real>& shared, const OutputRow& first, int64_t rows,
                  std::byte* slot) {
  const auto& [conv, cut, kernels, offsets, filters, bias, block, flat, in_y] = shared;
  const Real* planes = in_image<Real>(conv, cut, first);
  if (!planes) {
    kernels.load_planes(conv, cut.planes, first, reinterpret_cast<Real*>(slot));
    planes = reinterpret_cast<Real*>(slot);
  }
  auto* const staged = in_y ? nullptr : reinterpret_cast<Real*>(slot + cut.planes_bytes);
  const int64_t run_rows = in_y ? rows : cut.run_rows;
  for (int64_t row = 0; row < rows; row += run_rows)
    sum_rows(shared, planes, first, row, std::min(run_rows, rows - row), staged);
}

/// Returns what the bands of one cut share. `conv` has the columns of this cut alone;
/// `whole_vectors` says that its rows fill whole vectors.
template <class Real>
Shared<Real> shared_of(const ConvLaunch& launch, const ConvShape& conv, const Cut& cut,
                       bool whole_vectors, int64_t* offsets, const Real* bias) {
  const ConvKernels<Real>& kernels = conv_kernels<Real>(launch.device);
  fill_offsets(conv, cut.planes, offsets);
  const bool flat = cut.planes.pitch == conv.q && (conv.y_p == conv.q || conv.p == 1);
  // Sums grow in y where a run's outputs are neighbours there, or row by row where no vector is cut
  // short.
  const bool fit = flat || cut.run_rows == 1 || whole_vectors;
  return {.conv = conv,
          .cut = cut,
          .kernels = kernels,
          .offsets = offsets,
          .filters = static_cast<const Real*>(launch.filters),
          .bias = launch.bias ? bias : nullptr,
          .block = block_of(conv, cut.planes, kernels),
          .flat = flat,
          .in_y = !conv.pooled && !conv.accumulate && sums_fit_y<Real>(conv) && fit};
}

template <class Real>
void launch(const ConvLaunch& launch) {
  const ConvProblem& problem = launch.problem;
  if (problem.n == 0) return;
  const Cuts c = cuts<Real>(problem);
  ConvShape conv = shape_of(launch);
  conv.stride = {step_of(conv.stride.h, conv.p), step_of(conv.stride.w, conv.q)};
  std::byte* const workspace = static_cast<std::byte*>(launch.workspace);
  auto* const bias = reinterpret_cast<Real*>(workspace);
  auto* const offsets = reinterpret_cast<int64_t*>(workspace + c.first.bias_bytes);
  if (launch.bias) widen_bias(conv, problem.k, bias);
  ConvShape left = conv;
  left.q = c.columns;
  const Shared<Real> first = shared_of(launch, left, c.first, c.rest.has_value(), offsets, bias);
  std::optional<Shared<Real>> rest;
  if (c.rest) {
    ConvShape right = conv;
    right.q -= c.columns;
    right.left -= c.columns;
    right.y = static_cast<Real*>(conv.y) + c.columns;
    int64_t* const own_offsets = offsets + c.first.offsets_bytes / sizeof(int64_t);
    rest.emplace(shared_of(launch, right, *c.rest, false, own_offsets, bias));
  }
  const int threads = std::min(c.threads(std::max(launch.device.units, 1)),
                               worthwhile_threads(problem, available_threads()));
  const int64_t bands = c.first.bands, tasks = problem.n * problem.groups * bands;
  // A band of a depthwise convolution takes a few microseconds, so a thread takes several at once.
  const int64_t taken_at_once = std::clamp<int64_t>(tasks / (64 * threads), 1, 16);
  parallel_tasks(threads, tasks, taken_at_once, [&](int64_t task, int thread) {
    std::byte* const slot =
        workspace + c.shared_bytes() + static_cast<std::size_t>(thread) * c.slot_bytes();
    const OutputRow row{.n = task / bands / problem.groups,
                        .group = task / bands % problem.groups,
                        .p = task % bands * c.first.rows,
                        .q = 0,
                        .count = conv.q};
    const int64_t rows = std::min(c.first.rows, rows_computed(problem) - row.p);
    compute_band(first, row, rows, slot);
    if (rest) compute_band(*rest, row, rows, slot + c.first.slot_bytes());
  });
}

template <class Real>
Support supports(const ConvProblem& problem, const DeviceInfo&) {
  if (const Support usual = forward_in<Real>(problem); !usual) return usual;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  // A double cannot overflow, so it checks first the filters, and the input of a row of outputs.
  const double filters = number(problem.k) * number(problem.terms());
  const double row = number(problem.c / problem.groups) *
                     number((problem.r - 1) * problem.dilation.h + 1) *
                     (number(problem.q()) * number(problem.stride.w) +
                      number((problem.s - 1) * problem.dilation.w + 1));
  double bytes = sizeof(Real) * (filters + row);
  if (bytes <= workspace_limit_bytes) {
    bytes = static_cast<double>(cuts<Real>(problem).bytes(1));
  }
  if (bytes > workspace_limit_bytes)
    return {Reason::too_large,
            fmt::format("needs {:.0f} bytes for the filters and the input of a few rows; expected "
                        "at most {}",
                        bytes, workspace_limit_bytes)};
  return {};
}

/// Returns the products of a filter of `group_k` in units of those of a full run: a tile of fewer
/// filters loads more of x for each product.
double cost_of_runs(int64_t group_k) {
  const auto whole = static_cast<double>(group_k / 8 * 8);
  const auto has = [group_k](int64_t filters) { return (group_k & filters) != 0; };
  const double rest = 4.8 * has(4) + 3.0 * has(2) + 2.2 * has(1);
  return (whole + rest) / static_cast<double>(group_k);
}

/// The estimate has all positions, dropped ones too, and the copies at most of the nominal rate,
/// plus the time to move the tensors once. Sums that are scattered are staged before.
template <class Real>
double estimate_seconds(const ConvProblem& problem, const DeviceInfo& device) {
  if (problem.n == 0) return 0;
  const double images = static_cast<double>(problem.n) * static_cast<double>(problem.groups);
  const double rate = 0.85 * device.nominal_fp32_flop_per_second * sizeof(float) / sizeof(Real);
  const double slower = (cost_of_runs(problem.k / problem.groups) - 1) * problem.flop();
  const double all = images * work(problem, cuts<Real>(problem)) + products_of_turning(problem) +
                     2 * products_of_scattering(problem) + products_of_conversion(problem);
  return (2 * all + slower) / rate + problem.bytes() / device.nominal_bytes_per_second;
}

template <class Real>
constexpr ConvAlgorithm algorithm(std::string_view name, Operand operand, Accumulator sums) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = sums,
                   .reproducible = true,
                   .invariant = true},
      .fuses_pool = true,
      .accumulates = true,
      .reproduces = multiplies_and_adds_at_once,
      .plan = plan_of_parts<supports<Real>, estimate_seconds<Real>, workspace_bytes<Real>,
                            packed_bytes<Real>>,
      .pack_filters = pack_without_plan<pack_filters<Real>>,
      .launch = without_plan<launch<Real>>,
  };
}

}  // namespace

const ConvAlgorithm conv_direct_fp32 =
    algorithm<float>("cpu.conv.direct.fp32", Operand::fp32, Accumulator::fp32_fma);
const ConvAlgorithm conv_direct_fp64 =
    algorithm<double>("cpu.conv.direct.fp64", Operand::fp64, Accumulator::fp64_fma);

}  // namespace plumb
