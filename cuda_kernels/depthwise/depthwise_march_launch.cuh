// Launches a planned march, for one stored type.
#pragma once

#include <stdexcept>
#include <utility>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/depthwise/depthwise_forms.hpp"
#include "cuda_kernels/depthwise/depthwise_march.cuh"

namespace plumb::cuda::depthwise {

/// Turns the axes so that the marched one stands first.
inline DeepShape<int> march_shape(MarchAxis axis, const ConvProblem& problem) {
  DeepShape<int> shape(problem);
  const ConvAxis<int> none{.extent = 1,
                           .taps = 1,
                           .outputs = 1,
                           .stride = 0,
                           .dilation = 0,
                           .before = 0,
                           .boundary = Boundary::zeros,
                           .x_step = 0,
                           .w_step = 0,
                           .y_step = 0};
  if (axis == MarchAxis::rows) {
    shape.depth = shape.rows, shape.rows = none;
  } else if (axis == MarchAxis::columns) {
    shape.depth = shape.columns, shape.columns = none;
  } else if (axis == MarchAxis::images) {
    shape.depth = none;
    shape.depth.extent = shape.depth.outputs = static_cast<int>(problem.n);
    shape.depth.stride = 1;
    shape.depth.x_step = shape.x_n, shape.depth.y_step = shape.y_n;
    shape.x_n = shape.y_n = 0;
  }
  shape.z = Divisor<int>(shape.depth.outputs);
  shape.p = Divisor<int>(shape.rows.outputs);
  shape.q = Divisor<int>(shape.columns.outputs);
  return shape;
}

/// Says whether `columns` neighbours along a row, from a multiple of that on, are an aligned word
/// wherever the other strides lead.
inline bool rows_in_vectors(const void* data, int columns, int bytes, int column_step,
                            std::initializer_list<int> steps) {
  bool aligned =
      column_step == 1 && reinterpret_cast<std::uintptr_t>(data) % (columns * bytes) == 0;
  for (const int step : steps) aligned = aligned && step % columns == 0;
  return aligned;
}

inline MarchParams march_params(const MarchCut& cut, const ConvLaunch& call, int bytes) {
  const MarchForm& form = cut.form;
  MarchParams params{.shape = march_shape(cut.axis, call.problem)};
  const DeepShape<int>& shape = params.shape;
  const ConvAxis<int>& axis = shape.columns;
  const int images = cut.axis == MarchAxis::images ? 1 : static_cast<int>(call.problem.n);
  params.vectors = Divisor<int>(shape.k.value() / form.width);
  const int phases = std::max(shape.depth.dilation, 1), column_phases = std::max(axis.dilation, 1);
  params.phases = Divisor<int>(phases), params.column_phases = Divisor<int>(column_phases);
  params.groups =
      Divisor<int>(ceil_div(ceil_div(axis.outputs, column_phases), form.columns) * column_phases);
  params.segments =
      Divisor<int>(ceil_div(ceil_div(shape.depth.outputs, phases), cut.length) * phases);
  params.length = cut.length;
  params.total = params.vectors.value() * params.groups.value() * params.segments.value() *
                 shape.p.value() * images;
  params.lanes_along_channels = cut.lanes_along_channels;
  params.x_vectors = column_phases == 1 &&
                     march_reads_vectors(form.width, form.columns, form.taps_s, form.stride) &&
                     axis.boundary == Boundary::zeros && axis.before == march_lead(form.taps_s) &&
                     axis.extent % form.columns == 0 && axis.outputs <= axis.extent &&
                     rows_in_vectors(call.x, form.columns, bytes, axis.x_step,
                                     {shape.x_n, shape.x_c, shape.depth.x_step, shape.rows.x_step});
  params.y_vectors = column_phases == 1 && form.width == 1 && axis.outputs % form.columns == 0 &&
                     rows_in_vectors(call.y, form.columns, bytes, axis.y_step,
                                     {shape.y_n, shape.y_k, shape.depth.y_step, shape.rows.y_step});
  return params;
}

/// Launches the form that equals the plan's, and says whether it is among these.
template <class Stored, const auto& forms>
bool launch_form(const MarchCut& cut, const ConvLaunch& call) {
  const MarchParams params = march_params(cut, call, sizeof(Stored));
  const auto launch = [&]<std::size_t i>() {
    constexpr MarchForm form = march_form_for(forms[i], sizeof(Stored));
    if (!(form == cut.form)) return false;
    Launch(call.native_queue, blocks_for(params.total, cut.threads),
           static_cast<unsigned>(cut.threads), static_cast<std::size_t>(cut.shared_bytes))(
        depthwise_march<Stored, form.width, form.columns, form.taps_m, form.taps_r, form.taps_s,
                        form.stride>,
        params, static_cast<const Stored*>(call.x), static_cast<const Stored*>(call.w),
        static_cast<Stored*>(call.y), Epilogue<Stored>(call));
    return true;
  };
  return launch_one_of<std::size(forms)>(launch);
}

template <class Stored>
void launch_march(const DepthwisePlan& plan, const ConvLaunch& call) {
  const auto aligned = [](const void* data, const MarchCut& cut) {
    return reinterpret_cast<std::uintptr_t>(data) %
               (static_cast<std::size_t>(cut.form.width) * sizeof(Stored)) ==
           0;
  };
  const bool wide =
      plan.wide_march && aligned(call.x, *plan.wide_march) && aligned(call.y, *plan.wide_march);
  const MarchCut& cut = wide ? *plan.wide_march : *plan.march;
  if (!launch_form<Stored, march_channel_forms>(cut, call) &&
      !launch_form<Stored, march_row_forms>(cut, call))
    throw std::logic_error("no kernel is compiled for the form of a depthwise march");
}

}  // namespace plumb::cuda::depthwise
