// Direct convolution on the CPU: cuts the problem into bands of output rows, and hands these out to
// threads. direct_block.hpp says what is done to a band.
//
// The cut depends on the problem alone, never on the number of threads, so that results are the
// same bits for any number of them.
#include "cpu_reference/conv_direct.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstddef>

#include "cpu_reference/blocks.hpp"
#include "cpu_reference/direct_block.hpp"
#include "cpu_reference/instruction_set.hpp"
#include "plumb/conv.hpp"

namespace plumb {
namespace {

using std::int64_t;

/// How a problem is cut, and the memory that takes.
struct Cut {
  int64_t rows, bands;  ///< output rows of a band, at most; bands of an image and group
  int64_t run_rows;     ///< output rows of a run, at most
  int64_t pitch, plane, planes;
  int64_t places;  ///< of a run, with what is dropped
  std::size_t offsets_bytes, filters_bytes, planes_bytes, sums_bytes;

  std::size_t shared_bytes() const { return offsets_bytes + filters_bytes; }
  std::size_t slot_bytes() const { return planes_bytes + sums_bytes; }
  /// Threads that there is room for.
  int threads(int wanted) const {
    return static_cast<int>(threads_with_room(wanted, shared_bytes(), slot_bytes()));
  }
};

/// The stride as taps see it: without a second output along a direction, one plane holds all taps.
int64_t step_of(int64_t stride, int64_t outputs) { return outputs > 1 ? stride : 1; }

/// Places of a run of so many rows.
int64_t places_of(int64_t rows, int64_t pitch, int64_t q) {
  return round_up((rows - 1) * pitch + q, direct_run_multiple);
}

/// The rows of a run of which most places are outputs; among equals the most, up to a few vectors.
int64_t fullest_run(int64_t pitch, int64_t q, int64_t most_rows) {
  constexpr int64_t most_places = 192;
  int64_t best = 1;
  for (int64_t rows = 2; rows <= most_rows && rows * pitch <= most_places; ++rows)
    if (rows * places_of(best, pitch, q) >= best * places_of(rows, pitch, q)) best = rows;
  return best;
}

Cut cut(const ConvProblem& p) {
  // The input of a band stays in a level-2 cache, and all threads have bands. Runs are short, so
  // that their results are on the way to memory while the next are computed.
  constexpr int64_t planes_bytes = 128 << 10, enough_bands = 64;
  const int64_t step_h = step_of(p.stride.h, p.p()), step_w = step_of(p.stride.w, p.q());
  const int64_t reach_h = (p.r - 1) * p.dilation.h / step_h;
  const int64_t reach_w = (p.s - 1) * p.dilation.w / step_w;
  Cut cut{};
  cut.pitch = p.q() + reach_w;
  cut.planes = p.c / p.groups * std::min(step_h, (p.r - 1) * p.dilation.h + 1) *
               std::min(step_w, (p.s - 1) * p.dilation.w + 1);
  const int64_t row_bytes = cut.planes * cut.pitch * int64_t{sizeof(float)};
  const int64_t in_cache = planes_bytes / std::max<int64_t>(row_bytes, 1) - reach_h;
  const int64_t images = std::max<int64_t>(p.n, 1) * p.groups;
  const int64_t in_parallel = ceil_divide(p.p(), ceil_divide(enough_bands, images));
  // A band shorter than the filter loads more than it makes.
  const int64_t most = std::max<int64_t>({1, std::min(in_cache, in_parallel), reach_h});
  cut.bands = ceil_divide(p.p(), std::min(most, p.p()));
  cut.rows = ceil_divide(p.p(), cut.bands);
  cut.bands = ceil_divide(p.p(), cut.rows);
  cut.plane = (cut.rows + reach_h) * cut.pitch;
  cut.run_rows = fullest_run(cut.pitch, p.q(), cut.rows);
  cut.places = places_of(cut.run_rows, cut.pitch, p.q());
  cut.offsets_bytes = padded(p.terms() * int64_t{sizeof(int64_t)});
  cut.filters_bytes = padded(p.groups * round_up(p.k / p.groups, direct_filters) * p.terms() *
                             int64_t{sizeof(float)});
  // Runs are read to a multiple of the longest vector beyond the last place, in the last plane too.
  cut.planes_bytes =
      padded((cut.planes * cut.plane + reach_w + 2 * direct_run_multiple) * int64_t{sizeof(float)});
  cut.sums_bytes = padded(direct_filters * cut.places * int64_t{sizeof(float)});
  return cut;
}

DirectConv describe(const ConvLaunch& launch, const Cut& cut) {
  const ConvProblem& p = launch.problem;
  const Strides &x = p.x_strides, &w = p.w_strides, &y = p.y_strides;
  const Pair stride{step_of(p.stride.h, p.p()), step_of(p.stride.w, p.q())};
  return {.dtype = p.dtype,
          .relu = launch.activation == Activation::relu,
          .padded = p.padding != Padding{},
          .bias = launch.bias,
          .x = launch.x,
          .h = p.h,
          .w = p.w,
          .x_n = x[0],
          .x_c = x[1],
          .x_h = x[2],
          .x_w = x[3],
          .filters = launch.w,
          .w_k = w[0],
          .w_c = w[1],
          .w_r = w[2],
          .w_s = w[3],
          .group_c = p.c / p.groups,
          .r = p.r,
          .s = p.s,
          .group_k = p.k / p.groups,
          .y = launch.y,
          .p = p.p(),
          .q = p.q(),
          .y_n = y[0],
          .y_k = y[1],
          .y_p = y[2],
          .y_q = y[3],
          .stride = stride,
          .dilation = p.dilation,
          .top = p.padding.top,
          .left = p.padding.left,
          .phases_h = std::min(stride.h, (p.r - 1) * p.dilation.h + 1),
          .phases_w = std::min(stride.w, (p.s - 1) * p.dilation.w + 1),
          .pitch = cut.pitch,
          .plane = cut.plane};
}

const DirectKernels& kernels_for(const DeviceInfo& device) {
#ifdef __x86_64__
  switch (instruction_set_of(device.instruction_set)) {
    case InstructionSet::avx512: return direct_kernels_avx512;
    case InstructionSet::avx2: return direct_kernels_avx2;
    case InstructionSet::baseline: break;
  }
#else
  (void)device;
#endif
  return direct_kernels_baseline;
}

/// Filters of a run that begins with `left` of a group still to do: `most`, or a smaller power of
/// two.
int64_t run_filters(int64_t left, int64_t most) {
  int64_t filters = most;
  while (filters > left) filters /= 2;
  return filters;
}

/// Where each term of an output lies in the planes, from the output's place.
void place_terms(const DirectConv& conv, int64_t* offsets) {
  for (int64_t c = 0; c < conv.group_c; ++c)
    for (int64_t r = 0; r < conv.r; ++r)
      for (int64_t s = 0; s < conv.s; ++s) {
        const int64_t down = r * conv.dilation.h, right = s * conv.dilation.w;
        const int64_t plane =
            (c * conv.phases_h + down % conv.stride.h) * conv.phases_w + right % conv.stride.w;
        *offsets++ = plane * conv.plane + down / conv.stride.h * conv.pitch + right / conv.stride.w;
      }
}

/// Filters as runs read them: for each group and run of filters, [term][filter].
template <class Stored>
void pack_filters(const DirectConv& conv, int64_t groups, int64_t most, float* packed) {
  const auto* const from = static_cast<const Stored*>(conv.filters);
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t k = 0; k < conv.group_k;) {
      const int64_t filters = run_filters(conv.group_k - k, most);
      const Stored* const first = from + (group * conv.group_k + k) * conv.w_k;
      for (int64_t c = 0; c < conv.group_c; ++c)
        for (int64_t r = 0; r < conv.r; ++r)
          for (int64_t s = 0; s < conv.s; ++s)
            for (int64_t i = 0; i < filters; ++i)
              *packed++ = static_cast<float>(
                  first[i * conv.w_k + c * conv.w_c + r * conv.w_r + s * conv.w_s]);
      k += filters;
    }
}

std::size_t workspace_bytes(const ConvProblem& problem, const DeviceInfo& device) {
  if (problem.n == 0) return 0;
  const Cut c = cut(problem);
  const int threads = c.threads(std::max(device.units, 1));
  return c.shared_bytes() + static_cast<std::size_t>(threads) * c.slot_bytes();
}

void launch(const ConvLaunch& launch) {
  const ConvProblem& problem = launch.problem;
  if (problem.n == 0) return;
  const Cut c = cut(problem);
  const DirectConv conv = describe(launch, c);
  const DirectKernels& kernels = kernels_for(launch.device);
  std::byte* const workspace = static_cast<std::byte*>(launch.workspace);
  auto* const offsets = reinterpret_cast<int64_t*>(workspace);
  auto* const packed = reinterpret_cast<float*>(workspace + c.offsets_bytes);
  place_terms(conv, offsets);
  switch (problem.dtype) {
    case DType::f16: pack_filters<Half>(conv, problem.groups, kernels.filters, packed); break;
    case DType::bf16: pack_filters<BFloat16>(conv, problem.groups, kernels.filters, packed); break;
    default: pack_filters<float>(conv, problem.groups, kernels.filters, packed);
  }

  const int threads = std::min(c.threads(std::max(launch.device.units, 1)),
                               worthwhile_threads(problem, omp_get_max_threads()));
  const int64_t terms = problem.terms(), tasks = problem.n * problem.groups * c.bands;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t task = 0; task < tasks; ++task) {
    std::byte* const slot = workspace + c.shared_bytes() +
                            static_cast<std::size_t>(omp_get_thread_num()) * c.slot_bytes();
    auto* const planes = reinterpret_cast<float*>(slot);
    auto* const sums = reinterpret_cast<float*>(slot + c.planes_bytes);
    const int64_t first_row = task % c.bands * c.rows;
    const DirectBand band{.n = task / c.bands / problem.groups,
                          .group = task / c.bands % problem.groups,
                          .p = first_row,
                          .rows = std::min(c.rows, conv.p - first_row)};
    kernels.load(conv, band, planes);
    for (int64_t row = 0; row < band.rows; row += c.run_rows) {
      DirectBand part = band;
      part.p += row;
      part.rows = std::min(c.run_rows, band.rows - row);
      const int64_t places = (part.rows - 1) * c.pitch + conv.q;
      const float* w = packed + band.group * conv.group_k * terms;
      for (int64_t k = 0; k < conv.group_k;) {
        const int64_t filters = run_filters(conv.group_k - k, kernels.filters);
        kernels.sum({.x = planes + row * c.pitch,
                     .offsets = offsets,
                     .terms = terms,
                     .w = w,
                     .filters = filters,
                     .sums = sums,
                     .count = round_up(places, direct_run_multiple),
                     .step = c.places});
        kernels.store(conv, part, k, filters, sums, c.places);
        w += filters * terms;
        k += filters;
      }
    }
  }
}

Support supports(const ConvProblem& problem, const DeviceInfo&) {
  if (const Support usual = forward_in_fp32(problem); !usual) return usual;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  // In double first, because it cannot overflow: the filters, and the input of a row of outputs.
  const double filters = number(problem.k) * number(problem.terms());
  const double row = number(problem.c / problem.groups) *
                     number((problem.r - 1) * problem.dilation.h + 1) *
                     (number(problem.q()) * number(problem.stride.w) +
                      number((problem.s - 1) * problem.dilation.w + 1));
  double bytes = sizeof(float) * (filters + row);
  if (bytes <= workspace_limit_bytes) {
    const Cut c = cut(problem);
    bytes = static_cast<double>(c.shared_bytes() + c.slot_bytes());
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
double estimate_seconds(const ConvProblem& problem, const DeviceInfo& device) {
  if (problem.n == 0) return 0;
  const Cut c = cut(problem);
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const double bands = number(problem.n) * number(problem.groups) * number(c.bands);
  const double products =
      number(c.places) * number(problem.k / problem.groups) * (number(problem.terms()) + 8);
  const double copied = number(c.planes) * number(c.plane) * 4;
  return bands * 2 * (products + copied) / (0.8 * device.nominal_fp32_flop_per_second) +
         problem.bytes() / device.nominal_bytes_per_second;
}

}  // namespace

const ConvAlgorithm conv_direct_fp32{
    .name = "cpu.conv.direct.fp32",
    .numerics = {.operand = Operand::fp32, .accumulator = Accumulator::fp32_fma},
    .supports = &supports,
    .workspace_bytes = &workspace_bytes,
    .estimate_seconds = &estimate_seconds,
    .launch = &launch};

}  // namespace plumb
