// Convolution of few channels by rows, for fields: outputs are summed side by side along a row, and
// up to four rows that lie below each other share the input lines under them.
//
// Tiling: on a host a work item is up to four rows, of the filters of a group, which share the
// lines
//   of the input; 512 bytes of sums a row at a time (rows_on_host.hpp). On a device a work item is
//   a column of some rows, so that neighbours read neighbouring elements (rows_on_device.hpp).
// Bytes: y once; x T (1 + (R - 1) / 4) times for each filter, from caches beyond the first.
// Wins: few channels and filters, rows that are long.
#include <algorithm>
#include <memory>
#include <string>

#include "kokkos_kernels/conv_algorithms.hpp"
#include "kokkos_kernels/conv_shape.hpp"
#include "kokkos_kernels/conv_support.hpp"
#include "kokkos_kernels/rows_items.hpp"
#include "kokkos_kernels/rows_on_device.hpp"
#include "kokkos_kernels/rows_on_host.hpp"
#include "plumb/device.hpp"

namespace plumb::kokkos {
namespace {

template <class Sum, class Stored>
struct PackTaps {
  const Stored* w;
  Sum* taps;
  std::int64_t extents[4];
  Steps from;

  KOKKOS_FUNCTION void operator()(std::int64_t tap) const {
    const Place at = place_of(tap, extents[0], extents[1], extents[2], extents[3]);
    taps[tap] = convert<Sum>(w[from.offset(at.n, at.c, at.d, at.h, at.w)]);
  }
};

/// The instruction set that a host's inner loop is compiled for.
struct RowsPlan final : KernelPlan {
  std::string instruction_set;
};

template <class Sum, class... Stored>
void launch(const ConvLaunch& call, const KernelPlan* plan) {
  const auto& rows_plan = static_cast<const RowsPlan&>(*plan);
  with_stored<Stored...>(call.problem.dtype, [&]<class Element>(Element) {
    with_instance(instance_of(call), [&]<class Space>(const Space& space) {
      const auto run = [&]<class Kernel>(const Kernel& kernel) {
        using Policy =
            Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>, typename Kernel::Bounds>;
        Kokkos::parallel_for("plumb.conv.rows", Policy(space, 0, kernel.items()), kernel);
      };
      if constexpr (runs_on_host<Space>)
        run(RowsOnHost<Sum, Element>(call, row_loops_for<Sum>(rows_plan.instruction_set)));
      else
        with_device_kernel<Sum, Element>(call, run);
    });
  });
}

template <class Sum, class... Stored>
void pack(const FilterPacking& packing, const KernelPlan*) {
  const ConvProblem& problem = packing.problem;
  with_stored<Stored...>(problem.dtype, [&]<class Element>(Element) {
    const PackTaps<Sum, Element> kernel{
        static_cast<const Element*>(packing.w),
        static_cast<Sum*>(packing.filters),
        {problem.c / problem.groups, problem.t, problem.r, problem.s},
        Steps(problem.w_extents(), problem.w_strides)};
    with_instance(
        {packing.device.id.index, packing.native_queue}, [&]<class Space>(const Space& space) {
          Kokkos::parallel_for("plumb.conv.rows.pack",
                               Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(
                                   space, 0, element_count(problem.w_extents())),
                               kernel);
        });
  });
}

Support fits(const ConvProblem& problem) {
  if (problem.q() > 1 && problem.stride.w != 1)
    return {Reason::geometry, "stride.w is " + std::to_string(problem.stride.w) + "; expected 1"};
  const std::int64_t beside = problem.s > 1 ? (problem.s - 1) * problem.dilation.w : 0;
  if (beside > max_beside)
    return {Reason::geometry, "the filter covers " + std::to_string(beside + 1) +
                                  " columns; expected at most " + std::to_string(max_beside + 1)};
  return {};
}

/// A host reaches a third of its peak for whole granules, or half of that where a row has its lines
/// for itself; a line of a segment takes some 10 cycles besides, and 25 to be found and copied,
/// once for all filters of a group. A device has no idle columns.
double estimate(const ConvProblem& problem, const DeviceInfo& device, std::size_t sum_bytes,
                std::string_view instruction_set) {
  if (device.compute_major > 0) return model_seconds(problem, device, problem.flop(), 1.0 / 8);
  const auto bytes = static_cast<std::int64_t>(sum_bytes);
  const double columns = static_cast<double>(pieces_of(problem.q(), 64 / bytes) * (64 / bytes));
  const double segments = static_cast<double>(pieces_of(problem.q(), 512 / bytes));
  const std::int64_t rows = shares_lines(problem) ? segment_rows : 1;
  const double lines = static_cast<double>(pieces_of(problem.p(), rows) * (problem.r + rows - 1)) *
                       static_cast<double>(problem.c / problem.groups * problem.t) *
                       static_cast<double>(problem.n * problem.k * problem.z()) * segments;
  const double wide = flop_per_cycle_of(instruction_set);
  const double narrow_sums = 4.0 / static_cast<double>(sum_bytes);
  const double products =
      problem.flop() * columns / static_cast<double>(problem.q()) * (rows == 1 ? 2 : 1);
  const double filters = static_cast<double>(problem.k / problem.groups);
  const double flop = products / narrow_sums + lines * (10 + 25 / filters) * wide / 3;
  // The model halves the rate for f64, which the sums have counted.
  return model_seconds(problem, device, flop * (problem.dtype == DType::f64 ? 0.5 : 1.0),
                       wide / flop_per_cycle_of(device.instruction_set) / 3);
}

template <auto supports, class Sum>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports(problem, device)};
  if (result.support) result.support = fits(problem);
  if (!result.support) return result;
  auto kernel = std::make_shared<RowsPlan>();
  kernel->instruction_set = Device::open("cpu").info().instruction_set;
  result.estimate_seconds = estimate(problem, device, sizeof(Sum), kernel->instruction_set);
  result.filter_bytes = static_cast<std::size_t>(element_count(problem.w_extents())) * sizeof(Sum);
  result.kernel = std::move(kernel);
  return result;
}

template <auto supports, class Sum, class... Stored>
constexpr ConvAlgorithm rows_entry(std::string_view name, const Numerics& numerics) {
  ConvAlgorithm algorithm = common_entry(name, numerics);
  algorithm.plan = plan<supports, Sum>;
  algorithm.pack_filters = pack<Sum, Stored...>;
  algorithm.launch = launch<Sum, Stored...>;
  return algorithm;
}

}  // namespace

const ConvAlgorithm rows_fp32 =
    rows_entry<takes_fp32, float, float, Half, BFloat16>("kokkos.conv.rows.fp32", fp32_sums);
const ConvAlgorithm rows_fp64 =
    rows_entry<takes_fp64, double, double, float>("kokkos.conv.rows.fp64", fp64_sums);

}  // namespace plumb::kokkos
