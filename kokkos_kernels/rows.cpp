// Convolution of few channels by rows, for fields: outputs are summed side by side along a row, and
// up to four rows that lie below each other share the input lines under them.
//
// Tiling: on a host a work item is a segment of up to four rows, 512 bytes of sums a row; a line of
//   the input is read where it lies, or copied with what its boundary shows. On a device a work
//   item is a column of some rows, so that neighbours read neighbouring elements
//   (rows_on_device.hpp).
// Bytes: y once; x T (1 + (R - 1) / 4) times for each filter, from caches beyond the first.
// Wins: few channels and filters, rows that are long.
#include <algorithm>
#include <memory>
#include <string>

#include "kokkos_kernels/conv_algorithms.hpp"
#include "kokkos_kernels/conv_shape.hpp"
#include "kokkos_kernels/conv_support.hpp"
#include "kokkos_kernels/row_segments.hpp"
#include "kokkos_kernels/rows_items.hpp"
#include "kokkos_kernels/rows_on_device.hpp"
#include "plumb/device.hpp"

namespace plumb::kokkos {
namespace {

/// How many columns of the input a segment may need beside its own.
constexpr std::int64_t max_beside = 4096;

/// So many columns in whole granules.
template <class Sum>
int granules_of(std::int64_t columns) {
  return static_cast<int>(pieces_of(columns, segment_granule<Sum>)) * segment_granule<Sum>;
}

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

template <class Sum, class Stored>
struct RowsOnHost : Rows<Sum, Stored> {
  using Base = Rows<Sum, Stored>;
  using Item = typename Base::Item;
  static constexpr std::int64_t columns = segment_columns<Sum>;

  RowLoops<Sum> loops;
  std::int64_t beside;  ///< (S - 1) dilation

  RowsOnHost(const ConvLaunch& call, const RowLoops<Sum>& loops_)
      : Base(call, columns),
        loops(loops_),
        beside((this->shape.columns.taps - 1) * this->shape.columns.dilation) {}

  void operator()(std::int64_t number) const {
    const Item item = this->item_of(number);
    const Axis& axis = this->shape.columns;
    // The last segment of a row goes back to where its granules are whole, and stores what is new.
    const std::int64_t begin = item.segment * columns,
                       end = std::min(begin + columns, this->shape.q);
    const std::int64_t q = std::max<std::int64_t>(end - granules_of<Sum>(end - begin), 0);
    const std::int64_t first_w = q - axis.before;
    const int count = granules_of<Sum>(end - q);
    const bool in_place = std::is_same_v<Sum, Stored> && this->shape.x_step.w == 1 &&
                          first_w >= 0 && first_w + count + beside <= axis.extent;
    alignas(64) Sum sums[segment_rows * columns];
    std::fill_n(sums, segment_rows * columns, Sum{0});
    add_lines(item, first_w, count, in_place, sums);
    // Rows and planes of zeros are left out; columns of them are in the copy.
    const bool has_zeros = !in_place && axis.boundary == Boundary::zeros;
    for (int row = 0; row < item.rows; ++row) {
      Sum* const all = sums + row * columns;
      Sum* const own = all + (begin - q);
      if (has_zeros && !loops.all_finite(all, count))
        for (std::int64_t i = begin; i < end; ++i)
          own[i - begin] = this->without_padding(own[i - begin], item, row, i);
      store(item, row, begin, end, own);
    }
  }

  /// Adds the lines under an item, as many at once as there is room for their copies.
  void add_lines(const Item& item, std::int64_t first_w, int count, bool in_place,
                 Sum* sums) const {
    Sum copies[columns + max_beside];
    Line<Sum> lines[max_lines];
    const std::int64_t length = count + beside;
    const std::int64_t room =
        in_place ? max_lines : std::min<std::int64_t>(max_lines, (columns + max_beside) / length);
    int pending = 0;
    const auto add_pending = [&] {
      loops.add_lines({.sums = sums,
                       .lines = lines,
                       .count = pending,
                       .tap_step = -this->shape.w_step.h,
                       .tap_count = this->shape.columns.taps,
                       .dilation = this->shape.columns.dilation,
                       .rows = item.rows,
                       .columns = count});
      pending = 0;
    };
    this->for_each_line(item, [&](const Stored* line, const Sum* taps, int first, int last) {
      if (pending == room) add_pending();
      const Sum* from = copies + pending * length;
      if (in_place)
        from = reinterpret_cast<const Sum*>(line + first_w);
      else
        copy_line(line, first_w, length, copies + pending * length);
      lines[pending++] = {from, taps, first, last};
    });
    add_pending();
  }

  /// What `count` columns of the input show, from the coordinate `first_w` on.
  void copy_line(const Stored* line, std::int64_t first_w, std::int64_t count, Sum* copy) const {
    const Axis& axis = this->shape.columns;
    const std::int64_t step = this->shape.x_step.w;
    const std::int64_t begin = std::clamp<std::int64_t>(-first_w, 0, count);
    const std::int64_t end = std::clamp<std::int64_t>(axis.extent - first_w, begin, count);
    const auto show = [&](std::int64_t from, std::int64_t to) {
      if (axis.boundary == Boundary::zeros) return std::fill(copy + from, copy + to, Sum{0});
      for (std::int64_t i = from; i < to; ++i) {
        const std::int64_t w = at_boundary(axis.boundary, first_w + i, axis.extent);
        copy[i] = w < 0 ? Sum{0} : convert<Sum>(line[w * step]);
      }
    };
    show(0, begin);
    copy_inside(line + (first_w + begin) * step, step, end - begin, copy + begin);
    show(end, count);
  }

  static void copy_inside(const Stored* from, std::int64_t step, std::int64_t count, Sum* to) {
    if constexpr (std::is_same_v<Sum, Stored>)
      if (step == 1) return static_cast<void>(std::copy_n(from, count, to));
    if (step == 1)
      for (std::int64_t i = 0; i < count; ++i) to[i] = convert<Sum>(from[i]);
    else
      for (std::int64_t i = 0; i < count; ++i) to[i] = convert<Sum>(from[i * step]);
  }

  void store(const Item& item, int row, std::int64_t begin, std::int64_t end,
             const Sum* sums) const {
    Stored* const line = this->outputs(item, row) + begin * this->shape.y_step.w;
    const std::int64_t step = this->shape.y_step.w;
    const bool is_plain = !this->epilogue.bias && !this->epilogue.rectify;
    if (step == 1 && is_plain && !this->epilogue.accumulate)
      for (std::int64_t i = 0; i < end - begin; ++i) line[i] = convert<Stored>(sums[i]);
    else
      for (std::int64_t i = 0; i < end - begin; ++i)
        this->epilogue(sums[i], item.k, line + i * step);
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
/// for itself; a line of a segment takes some 50 cycles besides. A device has no idle columns.
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
  const double flop = products / narrow_sums + lines * 50 * wide / 3;
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
