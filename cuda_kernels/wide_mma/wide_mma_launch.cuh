// What a launch does: repacks x where it must, convolves, adds the parts of splits.
#pragma once

#include <algorithm>

#include "cuda_kernels/wide/wide_call.cuh"
#include "cuda_kernels/wide/wide_repack.cuh"
#include "cuda_kernels/wide/wide_splits.cuh"
#include "cuda_kernels/wide_mma/wide_mma_kernel.cuh"

namespace plumb::cuda {

/// Returns what the kernel is told of some images, whose x is read as it lies.
template <class Arithmetic>
WideMmaParams<Arithmetic> wide_mma_params(const ConvProblem& p, const WideMmaPlan& plan,
                                          const WideMmaTiles& tiles, const WideCall& call,
                                          const Epilogue<typename Arithmetic::Stored>& epilogue) {
  constexpr std::int64_t bytes = Arithmetic::operand_bytes;
  WideMmaParams<Arithmetic> params{
      wide_params<Arithmetic>(p, plan.filters, plan.input, call, epilogue)};
  params.pixels = static_cast<int>(tiles.pixels);
  params.works = static_cast<int>(tiles.works());
  params.n_tiles = Divisor<int>(std::int64_t{tiles.n_tiles} * tiles.groups);
  params.of_group = Divisor<int>(tiles.n_tiles);
  params.m_tiles = Divisor<int>(tiles.m_tiles);
  params.splits = tiles.splits;
  params.sums =
      reinterpret_cast<ComputeType<typename Arithmetic::Stored>*>(call.workspace + plan.sums_at);
  params.from = static_cast<const char*>(call.x);
  params.image_bytes = params.x_n * bytes;
  for (int i = 0; i < 3; ++i) {
    params.axis_bytes[i] = params.of_x.of[i].x_step * bytes;
    params.extent[i] = params.of_x.of[i].extent;
  }
  return params;
}

/// Puts x into workspace, from where the kernel reads it.
template <class Arithmetic>
void repack_wide_mma(WideMmaParams<Arithmetic>& params, const ConvProblem& p,
                     const WideMmaPlan& plan, char* workspace, void* stream) {
  WideInputParams input(p, plan.filters, plan.input, params.x);
  input.packed = workspace;
  repack_wide<typename Arithmetic::Stored, typename Arithmetic::Operand, 1>(
      input, static_cast<int>(p.n), stream);
  params.from = workspace;
  params.group_channels = plan.input.group_channels;
  std::int64_t apart = plan.input.pixel_bytes();
  for (int i = 0; i < 3; ++i) params.axis_bytes[i] = apart, apart *= params.extent[i];
  params.image_bytes = apart;
}

/// Starts the kernel of the plan's tiles, and the sum of its splits.
template <class Arithmetic, WideMmaFault fault, int number = 0>
void launch_wide_mma_tiles(WideMmaParams<Arithmetic> params, const WideMmaTiles& tiles,
                           void* stream) {
  if constexpr (has_wide_mma_shape(Arithmetic::host, number))
    if (tiles.shape == number) {
      constexpr WideMmaShape shape = wide_mma_shapes[number];
      if constexpr (fault == WideMmaFault::lost_pixel) --params.pixels;
      Launch(stream, static_cast<unsigned>(params.works), static_cast<unsigned>(shape.threads()),
             static_cast<std::size_t>(shape.shared_bytes()))(wide_mma<Arithmetic, number, fault>,
                                                             params);
      constexpr WideFault of_sum =
          fault == WideMmaFault::lost_split ? WideFault::lost_split : WideFault::none;
      if (params.splits > 1) launch_sum_splits<Arithmetic, of_sum>(params, stream, false);
      return;
    }
  if constexpr (number + 1 < wide_mma_shape_count)
    launch_wide_mma_tiles<Arithmetic, fault, number + 1>(params, tiles, stream);
}

/// Puts a convolution on the stream: of all images where x is read as it lies, and otherwise of as
/// many at a time as workspace has room for.
template <class Arithmetic, WideMmaFault fault = WideMmaFault::none>
void launch_wide_mma(const ConvProblem& problem, const WideMmaPlan& plan, const WideCall& call,
                     const Epilogue<typename Arithmetic::Stored>& epilogue, void* stream) {
  using Stored = typename Arithmetic::Stored;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(call.x) % 16 == 0;
  if (!plan.input.repacks && is_aligned)
    return launch_wide_mma_tiles<Arithmetic, fault>(
        wide_mma_params<Arithmetic>(problem, plan, plan.tiles, call, epilogue), plan.tiles, stream);
  ConvProblem p = problem;
  WideMmaTiles tiles = plan.tiles;
  const std::int64_t x_n = step<std::int64_t>(p.x_extents(), p.x_strides, 0),
                     y_n = step<std::int64_t>(p.y_extents(), p.y_strides, 0);
  for (std::int64_t first = 0; first < problem.n; first += plan.input.images) {
    p.n = std::min<std::int64_t>(plan.input.images, problem.n - first);
    tiles.cover(p.n * p.z() * p.p() * p.q());
    WideCall some = call;
    some.x = static_cast<const Stored*>(call.x) + first * x_n;
    some.y = static_cast<Stored*>(call.y) + first * y_n;
    auto params = wide_mma_params<Arithmetic>(p, plan, tiles, some, epilogue);
    repack_wide_mma(params, p, plan, call.workspace, stream);
    launch_wide_mma_tiles<Arithmetic, fault>(params, tiles, stream);
  }
}

}  // namespace plumb::cuda
