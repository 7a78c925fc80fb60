// What a launch does.
#pragma once

#include <algorithm>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/pointwise/pointwise_kernel.cuh"

namespace plumb::cuda {

/// The tensors of a slice.
struct PointwiseCall {
  const void* x;
  const void* filters;  ///< packed
  void* y;
};

/// Returns what the kernel is told of a slice.
template <class Arithmetic>
PointwiseParams<Arithmetic> pointwise_params(
    const ConvProblem& p, const PointwisePlan& plan, const PointwiseCall& call,
    PointwiseInput input, const Epilogue<typename Arithmetic::Stored>& epilogue) {
  using Stored = typename Arithmetic::Stored;
  const PointwiseFilters& filters = plan.filters;
  const PointwisePixels pixels(p);
  const PointwiseOutput output = pointwise_output(p, filters, call.y);
  const auto* const packed = static_cast<const char*>(call.filters);
  return {.x = static_cast<const Stored*>(call.x),
          .filters = packed,
          .y = static_cast<Stored*>(call.y),
          .epilogue = epilogue,
          .offsets = PointwiseOffsets(pixels, Arithmetic::host, has_neighbours(input, output)),
          .tiles = static_cast<int>(ceil_div(pixels.count(), std::int64_t{Arithmetic::pixels})),
          .c = filters.c,
          .k = filters.k,
          .x_c = step<int>(p.x_extents(), p.x_strides, 1),
          .y_k = step<int>(p.y_extents(), p.y_strides, 1),
          .batches = filters.batches(),
          .units = filters.units,
          .chunks = filters.chunks,
          .chunk_bytes = filters.chunk_bytes(),
          .dense = reinterpret_cast<const float*>(packed + filters.dense_at()),
          .group_chunks = plan.cut.group_chunks,
          .groups = Divisor<int>(plan.cut.groups),
          .warps_n = Divisor<int>(plan.cut.warps_n),
          .blocks = plan.cut.blocks,
          .warps_m = plan.warps() / plan.cut.warps_n,
          .output = output,
          .zero = 0};
}

/// Calls `f.operator()<input>()` for the number of an input that the arithmetic has.
template <class Arithmetic, class F>
void with_pointwise_input(PointwiseInput input, const F& f) {
  using enum PointwiseInput;
  if (input == rows) return f.template operator()<rows>();
  if (input == planes) return f.template operator()<planes>();
  if constexpr (!Arithmetic::is_tf32)
    if (input == half_planes) return f.template operator()<half_planes>();
  return f.template operator()<elements>();
}

template <class Arithmetic, int n8_tiles, PointwiseInput input, PointwiseFault fault>
void launch_pointwise_kernel(const PointwiseParams<Arithmetic>& params, const PointwisePlan& plan,
                             void* stream) {
  Launch launch(stream, static_cast<unsigned>(plan.cut.groups * plan.cut.blocks),
                static_cast<unsigned>(32 * plan.warps()), plan.shared_bytes());
  // What is not aligned was planned as if it were.
  if constexpr (n8_tiles == pointwise_held_tiles && input != PointwiseInput::elements)
    if (plan.cut.holds) return launch(pointwise_held<Arithmetic, input, fault>, params);
  launch(pointwise<Arithmetic, n8_tiles, input, fault>, params);
}

/// Puts a convolution on the stream, slice after slice.
template <class Arithmetic, PointwiseFault fault = PointwiseFault::none>
void launch_pointwise(const ConvProblem& problem, const PointwisePlan& plan,
                      const PointwiseCall& call,
                      const Epilogue<typename Arithmetic::Stored>& epilogue, void* stream) {
  using Stored = typename Arithmetic::Stored;
  ConvProblem p = problem;
  for (std::int64_t first = 0; first < problem.n; first += plan.images) {
    p.n = std::min(plan.images, problem.n - first);
    PointwiseCall some = call;
    some.x = static_cast<const Stored*>(call.x) + first * problem.x_strides[0];
    some.y = static_cast<Stored*>(call.y) + first * problem.y_strides[0];
    const PointwiseInput input = pointwise_input(p, Arithmetic::host, some.x);
    const auto params = pointwise_params<Arithmetic>(p, plan, some, input, epilogue);
    with_pointwise_input<Arithmetic>(input, [&]<PointwiseInput of>() {
      if (plan.filters.n8_tiles == 1)
        launch_pointwise_kernel<Arithmetic, 1, of, fault>(params, plan, stream);
      else
        launch_pointwise_kernel<Arithmetic, 4, of, fault>(params, plan, stream);
    });
  }
}

}  // namespace plumb::cuda
