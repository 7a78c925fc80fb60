// Launches a planned depthwise kernel, for one stored type.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/depthwise/depthwise_channels.cuh"
#include "cuda_kernels/depthwise/depthwise_direct_launch.cuh"
#include "cuda_kernels/depthwise/depthwise_march_launch.cuh"
#include "cuda_kernels/depthwise/depthwise_planes.cuh"
#include "cuda_kernels/depthwise/depthwise_staged_launch.cuh"
#include "cuda_kernels/depthwise/depthwise_whole_launch.cuh"
#include "cuda_kernels/primitives/compile_time.hpp"

namespace plumb::cuda::depthwise {

inline DeepShape<int> shape_of(const DepthwisePlan& plan, const ConvProblem& problem) {
  DeepShape<int> shape(problem);
  // One output has a stride of zero here, and one tap a dilation of zero: they move nothing.
  if (plan.rows_are_images) {
    shape.rows = {.extent = static_cast<int>(problem.n),
                  .taps = 1,
                  .outputs = static_cast<int>(problem.n),
                  .stride = 1,
                  .dilation = 0,
                  .before = 0,
                  .boundary = Boundary::zeros,
                  .x_step = shape.x_n,
                  .w_step = 0,
                  .y_step = shape.y_n};
    shape.p = Divisor<int>(problem.n);
    shape.x_n = shape.y_n = 0;
  }
  return shape;
}

inline DepthwiseParams params_of(const DepthwisePlan& plan, const DepthwiseCut& cut,
                                 const ConvProblem& problem, int element_bytes) {
  const int rows = depthwise_rows(plan.kernel, cut.form, element_bytes);
  const int columns = depthwise_columns(plan.kernel, cut.form, element_bytes);
  const bool planes = plan.kernel == DepthwiseKernel::planes;
  DepthwiseParams params{.shape = shape_of(plan, problem)};
  const DeepShape<int>& shape = params.shape;
  params.rows_dilation = Divisor<int>(std::max(shape.rows.dilation, 1));
  params.lanes_c = Divisor<int>(cut.lanes_c);
  params.lanes_w = Divisor<int>(cut.lanes_w);
  params.lanes_u = Divisor<int>(cut.lanes_u);
  params.tiles_c = Divisor<int>(ceil_div(problem.k, cut.lanes_c * cut.form.width));
  params.tiles_w = Divisor<int>(
      ceil_div(shape.q.value(), cut.lanes_w * columns * (planes ? cut.form.width : 1)));
  params.tiles_u = Divisor<int>(ceil_div(shape.p.value(), cut.lanes_u * rows));
  params.row_taps = Divisor<int>(std::int64_t{shape.rows.taps} * cut.form.chunk);
  params.rows = Divisor<int>(std::max(cut.rows, 1));
  params.planes = cut.planes;
  params.all_planes = static_cast<int>(problem.k) * shape.z.value() *
                      (plan.rows_are_images ? 1 : static_cast<int>(problem.n));
  params.columns = cut.columns, params.pitch = cut.pitch;
  params.filter_bytes = cut.filter_bytes;
  while ((1 << params.row_bits) < cut.row_lanes) ++params.row_bits;
  return params;
}

/// Says whether vectors of channels may be read and written.
inline bool aligned(const ConvLaunch& call, int bytes) {
  return reinterpret_cast<std::uintptr_t>(call.x) % bytes == 0 &&
         reinterpret_cast<std::uintptr_t>(call.y) % bytes == 0;
}

/// The forms of planes: taps in fours of one window, and any stride and dilation.
template <class Stored, class Launch>
void with_planes(const DepthwiseForm& form, const Launch& launch) {
  if (form.chunk == 4) return launch(depthwise_planes<Stored, 2, 4, 1>);
  launch(depthwise_planes<Stored, 2, 1, 0>);
}

/// The forms of channels: the same, in pairs or singles.
template <class Stored, class Launch>
void with_channels(const DepthwiseForm& form, const Launch& launch) {
  if constexpr (sizeof(Stored) < 8)
    if (form.width == 2)
      return form.stride == 1 ? launch(depthwise_channels<Stored, 2, 4, 1>)
                              : launch(depthwise_channels<Stored, 2, 1, 0>);
  if (form.chunk == 4) return launch(depthwise_channels<Stored, 1, 4, 1>);
  launch(depthwise_channels<Stored, 1, 1, 0>);
}

template <class Stored>
void launch_depthwise(const DepthwisePlan& plan, const ConvLaunch& call) {
  if (plan.direct && direct_aligned(*plan.direct, call, sizeof(Stored)))
    return launch_direct<Stored>(*plan.direct, call);
  if (plan.staged && staged_aligned(call, sizeof(Stored)))
    return launch_staged<Stored>(*plan.staged, call);
  if (plan.kernel == DepthwiseKernel::march) return launch_march<Stored>(plan, call);
  if (plan.whole) return launch_whole<Stored>(*plan.whole, call);
  constexpr int bytes = static_cast<int>(sizeof(Stored));
  const bool wide = plan.wide && aligned(call, plan.wide->form.width * bytes);
  const DepthwiseCut& cut = wide ? *plan.wide : plan.cut;
  const DepthwiseParams params = params_of(plan, cut, call.problem, bytes);
  const std::int64_t tiles = std::int64_t{params.tiles_w.value()} * params.tiles_u.value();
  const bool planes = plan.kernel == DepthwiseKernel::planes;
  const std::int64_t blocks = planes ? tiles * ceil_div(params.all_planes, cut.planes)
                                     : tiles * params.tiles_c.value() * params.shape.z.value() *
                                           (plan.rows_are_images ? 1 : call.problem.n);
  const auto launch = [&](auto kernel) {
    Launch(call.native_queue, blocks_for(blocks, 1), static_cast<unsigned>(cut.threads()),
           static_cast<std::size_t>(cut.shared_bytes))(
        kernel, params, static_cast<const Stored*>(call.x), static_cast<const Stored*>(call.w),
        static_cast<Stored*>(call.y), Epilogue<Stored>(call));
  };
  if (planes)
    with_planes<Stored>(cut.form, launch);
  else
    with_channels<Stored>(cut.form, launch);
}

}  // namespace plumb::cuda::depthwise
