// What a launch does.
#pragma once

#include <stdexcept>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/grouped/grouped_kernel.cuh"

namespace plumb::cuda {

template <class Stored>
GroupedParams<Stored> grouped_params(const GroupedPlan& plan, const ConvLaunch& call) {
  const GroupedCut& cut = plan.cut;
  GroupedParams<Stored> params{.x = static_cast<const Stored*>(call.x),
                               .filters = static_cast<const char*>(call.filters),
                               .y = static_cast<Stored*>(call.y),
                               .epilogue = Epilogue<Stored>(call),
                               .shape = DeepShape<int>(call.problem),
                               .h = plan.h,
                               .w = plan.w,
                               .packed = plan.filters,
                               .cut = cut,
                               .images = static_cast<int>(call.problem.n),
                               .channels = static_cast<int>(call.problem.c)};
  // What was planned in vectors moves one by one where it is not aligned.
  const auto is_aligned = [](const void* data, int bytes) {
    return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) == 0;
  };
  constexpr int size = GroupedParams<Stored>::size;
  GroupedCut& of = params.cut;
  const bool x_fits =
      is_aligned(call.x, cut.input == GroupedInput::units ? grouped_unit_bytes : size * cut.x_run);
  if (!x_fits) of.input = GroupedInput::runs, of.x_run = 1;
  const bool y_fits = is_aligned(
      call.y, cut.output == GroupedOutput::filters ? grouped_unit_bytes : size * cut.y_run);
  if (!y_fits) of.output = GroupedOutput::runs, of.y_run = 1;
  params.parts = Divisor<int>(cut.parts);
  params.tiles_p = Divisor<int>(cut.tiles_p), params.tiles_q = Divisor<int>(cut.tiles_q);
  params.image_pixels = Divisor<int>(cut.image_pixels(plan.filters.shape));
  params.m16 = Divisor<int>(plan.filters.shape.m16);
  params.columns = Divisor<int>(cut.columns);
  params.under_h = Divisor<int>(plan.h.under(cut.rows));
  params.under_w = Divisor<int>(plan.w.under(cut.columns));
  params.stride_h = Divisor<int>(plan.h.stride), params.stride_w = Divisor<int>(plan.w.stride);
  params.units = Divisor<int>(cut.units);
  params.beside = Divisor<int>(plan.filters.beside);
  params.tap_rows = Divisor<int>(plan.filters.rows);
  params.tap_units = Divisor<int>(plan.filters.units);
  params.runs = Divisor<int>(cut.runs(plan.filters.shape));
  params.row_units = Divisor<int>(std::int64_t{plan.w.under(cut.columns)} * cut.units);
  params.rows = Divisor<int>(std::int64_t{plan.h.under(cut.rows)} * cut.images);
  params.lane_units = Divisor<int>(of.lane_units());
  params.vectors =
      Divisor<int>(ceil_div(std::int64_t{plan.w.under(cut.columns)} + of.x_run - 1, of.x_run));
  return params;
}

template <class Stored, int number_of_shape, GroupedFault fault>
void launch_grouped_kernel(const GroupedPlan& plan, const ConvLaunch& call) {
  Launch(call.native_queue, static_cast<unsigned>(plan.cut.parts * plan.cut.blocks),
         static_cast<unsigned>(plan.cut.threads()),
         plan.shared_bytes())(plan.cut.bands ? grouped<Stored, number_of_shape, true, fault>
                                             : grouped<Stored, number_of_shape, false, fault>,
                              grouped_params<Stored>(plan, call));
}

/// Puts a convolution on the stream.
template <class Stored, GroupedFault fault = GroupedFault::none>
void launch_grouped(const GroupedPlan& plan, const ConvLaunch& call) {
  const bool launched = [&]<int... i>(std::integer_sequence<int, i...>) {
    return ((plan.filters.shape == grouped_shapes[i] &&
             (launch_grouped_kernel<Stored, i, fault>(plan, call), true)) ||
            ...);
  }
  (std::make_integer_sequence<int, std::size(grouped_shapes)>());
  if (!launched) throw std::logic_error("no kernel is compiled for the shape of the plan");
}

}  // namespace plumb::cuda
