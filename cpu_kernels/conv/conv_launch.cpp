// A ConvLaunch becomes what the kernels see.
#include "cpu_kernels/conv/conv_launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/src/parallel/parallel.hpp"
#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/primitives/instruction_set.hpp"
#include "cpu_kernels/primitives/rows.hpp"
#include "plumb/support.hpp"

namespace plumb {
namespace {

const ConvKernelSet& kernels_of(InstructionSet set) {
#ifdef __x86_64__
  switch (set) {
    case InstructionSet::amx:
    case InstructionSet::avx512_bf16:
    case InstructionSet::avx512: return conv_kernels_avx512;
    case InstructionSet::avx2: return conv_kernels_avx2;
    case InstructionSet::baseline: break;
  }
#else
  (void)set;
#endif
  return conv_kernels_baseline;
}

template <class Real>
const KernelsOf<Real>& kernels_in(const DeviceInfo& device) {
  const ConvKernelSet& set = kernels_of(instruction_set_of(device.instruction_set));
  if constexpr (sizeof(Real) == sizeof(float))
    return set.fp32;
  else
    return set.fp64;
}

}  // namespace

ReadableRange readable_range(const Extents& extents, const Strides& strides) {
  if (element_count(extents) == 0) return {};
  struct Dimension {
    std::int64_t step, reach;  ///< of one index; of all indices
  };
  std::array<Dimension, Dims::max_rank> dimensions{};
  ReadableRange range{0, 1};
  for (int i = 0; i < extents.rank(); ++i) {
    const std::int64_t reach = (extents[i] - 1) * strides[i];
    (reach < 0 ? range.begin : range.end) += reach;
    if (reach != 0) dimensions[i] = {std::abs(strides[i]), std::abs(reach)};
  }
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Dimension& a, const Dimension& b) { return a.step < b.step; });
  std::int64_t covered = 1;  // elements without gaps in the dimensions so far
  for (const Dimension& dimension : dimensions) {
    if (dimension.step > covered) return {};
    covered += dimension.reach;
  }
  return range;
}

ConvShape shape_of(const ConvLaunch& launch) {
  const ConvProblem& p = launch.problem;
  const Strides &x = p.x_strides, &w = p.w_strides, &y = p.y_strides;
  return {.dtype = p.dtype,
          .relu = launch.activation == Activation::relu,
          .accumulate = launch.accumulate,
          .padded = p.padding != Padding{},
          .pooled = p.pool != Pool::none,
          .reproducible = launch.reproducible,
          .bias = launch.bias,
          .x = launch.x,
          .h = p.h,
          .w = p.w,
          .x_n = x[0],
          .x_c = x[1],
          .x_h = x[2],
          .x_w = x[3],
          .x_readable = readable_range(p.x_extents(), x),
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
          .stride = p.stride,
          .dilation = p.dilation,
          .top = p.padding.top,
          .left = p.padding.left};
}

template <class Real>
const ConvKernels<Real>& conv_kernels(const DeviceInfo& device) {
  return kernels_in<Real>(device).conv;
}
template <class Real>
const FieldKernels<Real>& field_kernels(const DeviceInfo& device) {
  return kernels_in<Real>(device).fields;
}
template <class Real>
const WeightsKernels<Real>& weights_kernels(const DeviceInfo& device) {
  return kernels_in<Real>(device).weights;
}
template <class Real>
const ChannelsKernels<Real>& channels_kernels(const DeviceInfo& device) {
  return kernels_in<Real>(device).channels;
}
template <class Real>
const ImagesKernels<Real>& images_kernels(const DeviceInfo& device) {
  return kernels_in<Real>(device).images;
}

Support multiplies_and_adds_at_once(const ConvProblem&, const DeviceInfo& device) {
#ifdef __x86_64__
  if (instruction_set_of(device.instruction_set) == InstructionSet::baseline)
    return {Reason::not_reproducible,
            fmt::format("rounds products before it adds them, with {}; expected the fused "
                        "multiply-adds of avx2 or avx512",
                        device.instruction_set)};
#else
  (void)device;
#endif
  return {};
}

template <class Real>
bool sums_fit_y(const ConvShape& conv) {
  constexpr DType own = sizeof(Real) == sizeof(double) ? DType::f64 : DType::f32;
  return conv.dtype == own && (conv.y_q == 1 || conv.q == 1);
}

template <class Real>
Support forward_in(const ConvProblem& problem) {
  if (sizeof(Real) == sizeof(double))
    return supports_dtypes({DType::f64, DType::f32, DType::f16, DType::bf16}, problem);
  return supports_dtypes({DType::f32, DType::f16, DType::bf16}, problem);
}

PlanResult exceeds_workspace(std::string_view parts) {
  return {.support = {Reason::too_large,
                      fmt::format("{} take more than {} bytes", parts, workspace_limit_bytes)}};
}

template <class Real>
std::size_t packed_bytes(const ConvProblem& problem, const DeviceInfo&) {
  return padded(problem.k * problem.terms() * std::int64_t{sizeof(Real)});
}

template <class Real>
void pack_filters(const FilterPacking& packing) {
  const ConvProblem& problem = packing.problem;
  const ConvShape conv = shape_of({.problem = problem,
                                   .device = packing.device,
                                   .x = nullptr,
                                   .w = packing.w,
                                   .bias = nullptr,
                                   .y = nullptr,
                                   .activation = Activation::none,
                                   .workspace = nullptr,
                                   .native_queue = nullptr});
  const ConvKernels<Real>& kernels = conv_kernels<Real>(packing.device);
  auto* const packed = static_cast<Real*>(packing.filters);
  const std::int64_t runs = ceil_div(conv.group_k, kernels.filters);
  const int threads =
      std::min(packing.device.units, worthwhile_threads(problem, available_threads()));
  parallel_for(threads, problem.groups * runs, [&](std::int64_t task) {
    const std::int64_t group = task / runs;
    FilterRange range{.k = task % runs * kernels.filters, .count = kernels.filters};
    const std::int64_t end = std::min(range.k + kernels.filters, conv.group_k);
    while (range.k < end) {
      range.count = run_filters(end - range.k, kernels.filters);
      kernels.pack(conv, group, range, packed + (group * conv.group_k + range.k) * conv.terms());
      range.k += range.count;
    }
  });
}

template <class Real>
void widen_bias(const ConvShape& conv, std::int64_t count, Real* bias) {
  with_stored<Real>(conv.dtype, [&](auto stored) {
    load_row(static_cast<const decltype(stored)*>(conv.bias), 1, count, bias);
  });
}

template const ConvKernels<float>& conv_kernels<float>(const DeviceInfo&);
template const ConvKernels<double>& conv_kernels<double>(const DeviceInfo&);
template const FieldKernels<float>& field_kernels<float>(const DeviceInfo&);
template const FieldKernels<double>& field_kernels<double>(const DeviceInfo&);
template const WeightsKernels<float>& weights_kernels<float>(const DeviceInfo&);
template const WeightsKernels<double>& weights_kernels<double>(const DeviceInfo&);
template const ChannelsKernels<float>& channels_kernels<float>(const DeviceInfo&);
template const ChannelsKernels<double>& channels_kernels<double>(const DeviceInfo&);
template const ImagesKernels<float>& images_kernels<float>(const DeviceInfo&);
template const ImagesKernels<double>& images_kernels<double>(const DeviceInfo&);
template void widen_bias(const ConvShape&, std::int64_t, float*);
template void widen_bias(const ConvShape&, std::int64_t, double*);
template bool sums_fit_y<float>(const ConvShape&);
template bool sums_fit_y<double>(const ConvShape&);
template Support forward_in<float>(const ConvProblem&);
template Support forward_in<double>(const ConvProblem&);
template std::size_t packed_bytes<float>(const ConvProblem&, const DeviceInfo&);
template std::size_t packed_bytes<double>(const ConvProblem&, const DeviceInfo&);
template void pack_filters<float>(const FilterPacking&);
template void pack_filters<double>(const FilterPacking&);

}  // namespace plumb
