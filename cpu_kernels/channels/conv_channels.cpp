// Convolutions with vectors over filters: for images whose channels lie side by side, for small
// images of many channels, and for groups of few filters.
//
// Each output is summed in the order of its terms, so that results are the same bits however the
// work is cut and whoever does it.
#include "cpu_kernels/channels/conv_channels.hpp"

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "core/src/parallel/parallel.hpp"
#include "cpu_kernels/channels/channels_band.hpp"
#include "cpu_kernels/channels/channels_plan.hpp"
#include "cpu_kernels/conv/conv_launch.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

template <class Real>
std::size_t filter_bytes(const ChannelsPlan& plan) {
  return padded(plan.filter_reals() * int64_t{sizeof(Real)});
}

template <class Real>
int slots(const ConvProblem& problem, const ChannelsPlan& plan, const DeviceInfo& device) {
  return slots_of(problem, device, plan.tasks(), filter_bytes<Real>(plan), plan.slot_bytes());
}

template <class Real>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  if (const Support usual = forward_in<Real>(problem); !usual) return {.support = usual};
  constexpr std::string_view parts = "the filters and the input of the smallest band";
  if (filters_exceed_workspace<Real>(problem)) return exceeds_workspace(parts);
  auto plan = std::make_shared<ChannelsPlan>(
      plan_channels(problem, channels_kernels<Real>(device), std::max(device.units, 1)));
  if (plan->chunks == 0 || filter_bytes<Real>(*plan) + plan->slot_bytes() > workspace_limit_bytes)
    return exceeds_workspace(parts);
  PlanResult result;
  result.filter_bytes = filter_bytes<Real>(*plan);
  if (problem.n > 0) {
    result.workspace_bytes =
        static_cast<std::size_t>(slots<Real>(problem, *plan, device)) * plan->slot_bytes();
    // Sums that are scattered are staged before, and turned.
    const double rate = 0.88 * device.nominal_fp32_flop_per_second * sizeof(float) / sizeof(Real);
    result.estimate_seconds = 2 * (plan->products + 2 * products_of_scattering(problem)) / rate +
                              problem.bytes() / device.nominal_bytes_per_second;
  }
  result.kernel = std::move(plan);
  return result;
}

/// Packs one run of filters, [term][filter], with zeros in lanes without a filter; says whether all
/// weights are finite.
template <class Stored, class Real>
bool pack_run(const FilterPacking& packing, const ChannelsPlan& plan, int64_t set, int64_t k,
              Real* to) {
  const ConvProblem& p = packing.problem;
  const Strides& w = p.w_strides;
  const bool deep = p.has_depth();
  const int last = deep ? 4 : 3;
  const int64_t w_t = deep ? w[2] : 0, w_r = w[last - 1], w_s = w[last];
  const int64_t filters = std::min(plan.run, plan.set_filters - k);
  const int64_t width = round_up(filters, plan.lanes);
  const auto* const from =
      static_cast<const Stored*>(packing.w) + (set * plan.set_filters + k) * w[0];
  Real product = 0;
  std::vector<Real> row(static_cast<std::size_t>(plan.run));
  for (int64_t c = 0; c < plan.group_c; ++c)
    for (int64_t t = 0; t < p.t; ++t)
      for (int64_t r = 0; r < p.r; ++r)
        for (int64_t s = 0; s < p.s; ++s, to += width) {
          Real* const loaded = plan.turns() ? row.data() : to;
          load_row(from + c * w[1] + t * w_t + r * w_r + s * w_s, w[0], filters, loaded);
          for (int64_t i = 0; i < filters; ++i) product += loaded[i] * 0;
          std::fill(loaded + filters, loaded + width, Real{0});
          if (loaded != to)
            for (int64_t i = 0; i < width; ++i) to[plan.packed(i)] = loaded[i];
        }
  return product == 0;
}

template <class Real>
void pack_filters(const FilterPacking& packing, const KernelPlan* kernel) {
  const auto& plan = static_cast<const ChannelsPlan&>(*kernel);
  auto* const flags = static_cast<Real*>(packing.filters);
  Real* const filters = flags + plan.flags();
  const int64_t runs = plan.runs_of_set();
  const int threads =
      std::min(packing.device.units, worthwhile_threads(packing.problem, available_threads()));
  with_stored<Real>(packing.problem.dtype, [&](auto stored) {
    parallel_for(threads, plan.sets * runs, [&](int64_t run) {
      const int64_t set = run / runs, k = run % runs * plan.run;
      Real* const to = filters + (set * plan.set_lanes() + k) * plan.terms();
      flags[run] = pack_run<decltype(stored)>(packing, plan, set, k, to) ? Real{0} : Real{1};
    });
  });
}

template <class Real>
void launch(const ConvLaunch& launch, const KernelPlan* kernel) {
  const auto& plan = static_cast<const ChannelsPlan&>(*kernel);
  const ConvProblem& problem = launch.problem;
  if (problem.n == 0) return;
  const ChannelsLaunch<Real> shared(launch, plan, channels_kernels<Real>(launch.device));
  const int threads = std::min(slots<Real>(problem, plan, launch.device), available_threads());
  const int64_t tasks = plan.tasks();
  // Neighbouring tasks share what is loaded.
  const int64_t together =
      std::max<int64_t>(1, std::min(plan.chunks * plan.axes.z, tasks / (4 * threads)));
  parallel_shares(threads, ceil_div(tasks, together), [&](const auto& take, int thread) {
    ChannelsBand<Real> band(shared, static_cast<std::byte*>(launch.workspace) +
                                        static_cast<std::size_t>(thread) * plan.slot_bytes());
    for (int64_t share = take(); share >= 0; share = take())
      for (int64_t task = share * together; task < std::min((share + 1) * together, tasks); ++task)
        band.run(task);
  });
}

template <class Real>
constexpr ConvAlgorithm algorithm(std::string_view name, Operand operand, Accumulator sums) {
  return {.name = name,
          .numerics = {.operand = operand,
                       .accumulator = sums,
                       .reproducible = true,
                       .invariant = true},
          .takes_depth = true,
          .takes_boundaries = true,
          .accumulates = true,
          .reproduces = multiplies_and_adds_at_once,
          .plan = plan<Real>,
          .pack_filters = pack_filters<Real>,
          .launch = launch<Real>};
}

}  // namespace

const ConvAlgorithm conv_channels_fp32 =
    algorithm<float>("cpu.conv.channels.fp32", Operand::fp32, Accumulator::fp32_fma);
const ConvAlgorithm conv_channels_fp64 =
    algorithm<double>("cpu.conv.channels.fp64", Operand::fp64, Accumulator::fp64_fma);

}  // namespace plumb
