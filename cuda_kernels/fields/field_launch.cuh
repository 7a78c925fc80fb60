// Launches a planned field kernel, for one type of elements.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/fields/field_columns.cuh"
#include "cuda_kernels/fields/field_cut.hpp"
#include "cuda_kernels/fields/field_kernel.cuh"
#include "cuda_kernels/fields/field_queue.cuh"
#include "cuda_kernels/fields/field_toeplitz.cuh"
#include "cuda_kernels/primitives/compile_time.hpp"
#include "cuda_kernels/primitives/tensor_map.hpp"

namespace plumb::cuda::fields {

/// Says whether vectors can be read or written at `tensor`: its rows are contiguous and begin at
/// multiples of a vector, or of so many bytes.
template <class Scalar>
bool rows_aligned(const void* tensor, std::initializer_list<std::int64_t> steps,
                  std::int64_t step_w, int bytes = vector_bytes) {
  const int elements = bytes / static_cast<int>(sizeof(Scalar));
  bool aligned = step_w == 1 && reinterpret_cast<std::uintptr_t>(tensor) % bytes == 0;
  for (const std::int64_t step : steps) aligned = aligned && step % elements == 0;
  return aligned;
}

/// The widest copies that the queue's rows can be loaded by.
template <class Scalar>
int copy_bytes(const FieldView& view, const FieldCall& call) {
  constexpr int element = static_cast<int>(sizeof(Scalar));
  if (call.vectors)
    for (int bytes = vector_bytes; bytes > element; bytes /= 2)
      if (view.w.before % (bytes / element) == 0 &&
          rows_aligned<Scalar>(call.x, {view.x_n, view.x_c, view.u.x_step, view.v.x_step},
                               view.w.x_step, bytes))
        return bytes;
  return element;
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
  const bool queue = plan.kernel == FieldKernel::queue;
  params.x_vectors = call.vectors && !queue && (lead == 0 || !y_aligned) &&
                     rows_aligned<Scalar>(
                         call.x, {view.x_n, view.x_c, view.u.x_step, view.v.x_step}, view.w.x_step);
  params.shift = params.x_vectors && plan.kernel != FieldKernel::columns
                     ? static_cast<int>((vector - lead) % vector)
                     : 0;
  params.y_vectors = params.shift == 0 && y_aligned;
  params.filters = plan.filters, params.channels = plan.channels;
  params.k = Divisor<int>(ceil_div(view.k, params.filters));
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
  params.filters_at = plan.stage_bytes * (queue ? stages : 1);
  params.scratch_at = params.filters_at + plan.filter_bytes;
  params.lines_at = params.scratch_at + plan.scratch_bytes;
  params.columns_at = params.lines_at + plan.line_bytes;
  params.has_columns = plan.column_bytes > 0;
  params.pairs = plan.pairs;
  params.lines_in_row = view.u.taps == 1;
  params.patches_at = params.lines_at;
  params.copy_bytes = copy_bytes<Scalar>(view, call);
  params.part_bytes = plan.part_bytes;
  params.stage_bytes = plan.stage_bytes, params.channel_bytes = plan.channel_bytes;
  params.filter_bytes = plan.filter_bytes / (queue ? view.c : plan.channels);
  return params;
}

/// The filters' taps along u that columns are compiled for.
using ColumnTaps = CompileTime<3, 5, 7, 9>;

/// The filters of a block that the line is compiled for.
using LineFilters = CompileTime<1, 2, 3, 4>;

/// Calls `launch` with the kernel of columns that is planned.
template <class Scalar, class Launch>
void launch_columns(const FieldPlan& plan, const Launch& launch) {
  const int taps_w = plan.view.w.taps;
  ColumnTaps::with(plan.view.u.taps, [&]<int taps_u>() {
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

/// Describes the input to the copy engine, and says whether it can load the queue's boxes. What it
/// cannot load stops the kernel as an illegal instruction.
template <class Scalar>
bool encode_boxes(CUtensorMap& map, const FieldPlan& plan, const FieldCall& call) {
  if (!plan.boxes || !call.vectors ||
      reinterpret_cast<std::uintptr_t>(call.x) % tensor_map_alignment != 0 ||
      plan.part_bytes % tiled_box_alignment != 0 || !boxes_fit(plan.view, plan.element_bytes))
    return false;
  const FieldView& view = plan.view;
  constexpr int bytes = static_cast<int>(sizeof(Scalar));
  TiledMap tensor{.extent = {view.w.extent, view.v.extent, view.u.extent, view.c, view.n}};
  const std::int64_t steps[] = {1, view.v.x_step, view.u.x_step, view.x_c, view.x_n};
  // A stride to no second element is any; it is taken as if the axes before were dense.
  std::int64_t dense = bytes;
  for (int i = 0; i < TiledMap::rank; ++i) {
    if (tensor.extent[i] > 1 || i == 0) dense = steps[i] * bytes;
    tensor.stride_bytes[i] = std::min(dense, max_tensor_map_stride / 16 * 16);
    dense *= tensor.extent[i];
    dense += -dense & (tensor_map_alignment - 1);
  }
  tensor.box[0] = plan.pitch * vector_bytes / bytes, tensor.box[1] = plan.rows;
  return encode_tiled(map, tensor, bytes == 4 ? DType::f32 : DType::f64, call.x);
}

/// The parameters for a queue whose threads copy, a channel at a time.
inline FieldParams one_by_one(FieldParams params) {
  params.channels = 1, params.stage_bytes = params.channel_bytes;
  return params;
}

/// Calls `launch` with the kernel of the queue that is planned, its parameters and its map.
template <class Scalar, class Launch, std::size_t... cuts>
void launch_queue(const FieldPlan& plan, const FieldParams& params, const FieldCall& call,
                  const Launch& launch, std::index_sequence<cuts...>) {
  const auto with = [&]<std::size_t i>() {
    constexpr QueueCut cut = queue_cuts[i];
    if constexpr (is_compiled(cut, sizeof(Scalar))) {
      using Boxes = QueueShape<cut.taps, cut.vectors, cut.rows, cut.filters, cut.kept_rows,
                               cut.along_w(), true>;
      using Copies = QueueShape<cut.taps, cut.vectors, cut.rows, cut.filters, cut.kept_rows,
                                cut.along_w(), false>;
      CUtensorMap map{};
      if (has_copy_engine(reinterpret_cast<const void*>(queue_fields<Scalar, Boxes>)) &&
          encode_boxes<Scalar>(map, plan, call))
        launch(params, queue_fields<Scalar, Boxes>, map);
      else
        launch(one_by_one(params), queue_fields<Scalar, Copies>, map);
    }
    return true;
  };
  (void)((plan.queue == queue_cuts[cuts] && with.template operator()<cuts>()) || ...);
}

template <class Scalar>
void launch_fields(const FieldPlan& plan, const FieldCall& call, void* stream) {
  const FieldParams params = params_of<Scalar>(plan, call);
  const std::int64_t blocks = plan.view.n * params.tiles_u.value() * params.tiles_v.value() *
                              params.tiles_w.value() * params.k.value();
  const auto launch_with = [&](const FieldParams& params, auto kernel, const auto&... map) {
    Launch(stream, blocks_for(blocks, 1), static_cast<unsigned>(plan.threads()),
           static_cast<std::size_t>(plan.shared_bytes))(
        kernel, params, map..., static_cast<const Scalar*>(call.x),
        static_cast<const Scalar*>(call.w), static_cast<Scalar*>(call.y),
        FieldEpilogue<Scalar>{static_cast<const Scalar*>(call.bias), call.relu, call.accumulate});
  };
  const auto launch = [&](auto kernel) { launch_with(params, kernel); };
  if constexpr (sizeof(Scalar) == sizeof(double))
    if (plan.kernel == FieldKernel::toeplitz) {
      if (params.lines_in_row)
        launch(toeplitz_fields<toeplitz_blocks_in_row>);
      else
        launch(toeplitz_fields<toeplitz_blocks>);
      return;
    }
  if (plan.kernel == FieldKernel::columns)
    launch_columns<Scalar>(plan, launch);
  else if (plan.kernel == FieldKernel::queue)
    launch_queue<Scalar>(plan, params, call, launch_with,
                         std::make_index_sequence<std::size(queue_cuts)>());
  else if (plan.kernel == FieldKernel::line)
    LineFilters::with(plan.filters, [&]<int filters>() { launch(line_fields<Scalar, filters>); });
  else if (plan.in_order)
    launch(tile_fields<Scalar, true>);
  else
    launch(tile_fields<Scalar, false>);
}

}  // namespace plumb::cuda::fields
