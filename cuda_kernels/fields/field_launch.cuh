// Launches a planned field kernel, for one type of elements.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/fields/field_columns.cuh"
#include "cuda_kernels/fields/field_kernel.cuh"
#include "cuda_kernels/primitives/compile_time.hpp"

namespace plumb::cuda::fields {

/// Says whether vectors can be read or written at `tensor`: its rows are contiguous and begin at
/// multiples of a vector.
template <class Scalar>
bool rows_aligned(const void* tensor, std::initializer_list<std::int64_t> steps,
                  std::int64_t step_w) {
  bool aligned = step_w == 1 && reinterpret_cast<std::uintptr_t>(tensor) % vector_bytes == 0;
  for (const std::int64_t step : steps) aligned = aligned && step % vector_elements<Scalar> == 0;
  return aligned;
}

inline int log2_of(int power) {
  int bits = 0;
  while ((1 << bits) < power) ++bits;
  return bits;
}

template <class Scalar>
FieldParams params_of(const FieldPlan& plan, const FieldCall& call) {
  constexpr int vector = vector_elements<Scalar>;
  const FieldView& view = plan.view;
  FieldParams params{};
  params.view = view;
  // Padding moves the input against the outputs. Where both have aligned rows and only one can be
  // taken in vectors, these are the outputs: a write costs threads more than a read that they do
  // not wait for. Otherwise the tiles follow the input.
  const bool y_aligned = rows_aligned<Scalar>(
      call.y, {view.y_n, view.y_k, view.u.y_step, view.v.y_step}, view.w.y_step);
  const std::int64_t lead = (view.w.before + plan.front) % vector;
  params.x_vectors = call.vectors && (lead == 0 || !y_aligned) &&
                     rows_aligned<Scalar>(
                         call.x, {view.x_n, view.x_c, view.u.x_step, view.v.x_step}, view.w.x_step);
  params.shift = params.x_vectors && plan.kernel != FieldKernel::columns
                     ? static_cast<int>((vector - lead) % vector)
                     : 0;
  params.y_vectors = params.shift == 0 && y_aligned;
  params.k = Divisor<int>(view.k);
  params.tiles_w = Divisor<int>(ceil_div(view.w.outputs + params.shift, plan.tile_w));
  params.tiles_v = Divisor<int>(ceil_div(view.v.outputs, plan.tile_v));
  params.tiles_u = Divisor<int>(ceil_div(view.u.outputs, plan.tile_u));
  params.rows = Divisor<int>(plan.rows);
  params.threads_w_bits = log2_of(plan.threads_w);
  params.threads_v_bits = log2_of(plan.threads_v);
  params.row_bits = log2_of(plan.row_threads);
  params.tile_u = plan.tile_u, params.tile_v = plan.tile_v, params.tile_w = plan.tile_w;
  params.planes = plan.planes;
  params.columns = plan.columns;
  params.front = plan.front;
  params.row_vectors = Divisor<int>(plan.row_vectors);
  params.pitch = plan.pitch * vector;
  params.filters_at = plan.stage_bytes * (plan.kernel == FieldKernel::march ? stages : 1);
  params.scratch_at = params.filters_at + plan.filter_bytes;
  params.lines_at = params.scratch_at + plan.scratch_bytes;
  params.columns_at = params.lines_at + plan.line_bytes;
  params.has_columns = plan.column_bytes > 0;
  return params;
}

/// The filters' taps along u that a march is compiled for.
using MarchTaps = CompileTime<3, 5, 7, 9>;

/// Calls `launch` with the kernel of columns that is planned.
template <class Scalar, class Launch>
void launch_columns(const FieldPlan& plan, const Launch& launch) {
  const int taps_w = plan.view.w.taps;
  MarchTaps::with(plan.view.u.taps, [&]<int taps_u>() {
    const auto with = [&]<int taps_v, int outputs>() {
      if constexpr (has_column_outputs(sizeof(Scalar), taps_u, taps_v > 1, outputs)) {
        constexpr int compiled = column_taps(taps_u, taps_v, taps_u, outputs);
        if (taps_w == compiled)
          launch(column_fields<Scalar, taps_u, taps_v, compiled, outputs>);
        else
          launch(column_fields<Scalar, taps_u, taps_v, 0, outputs>);
      }
    };
    CompileTime<4, 8>::with(plan.outputs, [&]<int outputs>() {
      if (plan.view.v.taps == 1)
        with.template operator()<1, outputs>();
      else
        with.template operator()<taps_u, outputs>();
    });
  });
}

template <class Scalar>
void launch_fields(const FieldPlan& plan, const FieldCall& call, void* stream) {
  const FieldParams params = params_of<Scalar>(plan, call);
  const std::int64_t blocks = plan.view.n * params.tiles_u.value() * params.tiles_v.value() *
                              params.tiles_w.value() * params.k.value();
  const auto launch = [&](auto kernel) {
    Launch(stream, blocks_for(blocks, 1), static_cast<unsigned>(plan.threads()),
           static_cast<std::size_t>(plan.shared_bytes))(
        kernel, params, static_cast<const Scalar*>(call.x), static_cast<const Scalar*>(call.w),
        static_cast<Scalar*>(call.y),
        FieldEpilogue<Scalar>{static_cast<const Scalar*>(call.bias), call.relu, call.accumulate});
  };
  if (plan.kernel == FieldKernel::columns)
    launch_columns<Scalar>(plan, launch);
  else if (plan.kernel == FieldKernel::tile)
    launch(tile_fields<Scalar>);
  else if (plan.kernel == FieldKernel::line)
    launch(line_fields<Scalar>);
  else
    MarchTaps::with(plan.view.u.taps, [&]<int taps_u>() { launch(march_fields<Scalar, taps_u>); });
}

}  // namespace plumb::cuda::fields
