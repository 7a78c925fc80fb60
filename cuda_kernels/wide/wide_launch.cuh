// What a launch does: repacks x where it must, convolves, adds the parts of splits.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/primitives/im2col_of_f32.hpp"
#include "cuda_kernels/primitives/im2col_rows.hpp"
#include "cuda_kernels/primitives/swizzled_map.hpp"
#include "cuda_kernels/primitives/tensor_map.hpp"
#include "cuda_kernels/wide/wide_axes.hpp"
#include "cuda_kernels/wide/wide_boxes.hpp"
#include "cuda_kernels/wide/wide_call.cuh"
#include "cuda_kernels/wide/wide_kernel.cuh"
#include "cuda_kernels/wide/wide_pack.cuh"
#include "cuda_kernels/wide/wide_region.cuh"
#include "cuda_kernels/wide/wide_repack.cuh"
#include "cuda_kernels/wide/wide_splits.cuh"

namespace plumb::cuda {

/// Returns what the kernel is told of some images, but for the tensor map.
template <class Arithmetic>
WideParams<Arithmetic> wide_params(const ConvProblem& p, const WidePlan& plan,
                                   const WideTiles& tiles, const WideCall& call,
                                   const Epilogue<typename Arithmetic::Stored>& epilogue) {
  const WideFilters& filters = plan.filters;
  auto params = wide_params<Arithmetic>(p, filters, plan.input, call, epilogue);
  params.sums = reinterpret_cast<ComputeType<typename Arithmetic::Stored>*>(call.workspace +
                                                                            plan.workspace.sums);
  params.splits = tiles.splits;
  params.pixels = static_cast<int>(tiles.pixels);
  params.works = static_cast<int>(tiles.works());
  params.whole = tiles.cluster > 1 ? static_cast<int>(tiles.whole()) : params.works;
  params.cluster_blocks = tiles.cluster_blocks;
  params.cluster = Divisor<int>(tiles.cluster);
  params.n_tiles = Divisor<int>(std::int64_t{tiles.n_tiles} * tiles.groups);
  params.of_group = Divisor<int>(tiles.n_tiles);
  params.m_tiles = Divisor<int>(tiles.m_tiles);
  if constexpr (Arithmetic::splits_operands)
    params.scales.dense = reinterpret_cast<const float*>(params.filters + filters.dense_at());
  if constexpr (Arithmetic::splits_in_memory) {
    params.scales.of_image = reinterpret_cast<const int*>(call.workspace + plan.workspace.scales);
    params.scales.least_sum =
        least_sum_of_small<Arithmetic::rounds> * static_cast<float>(filters.terms());
    params.scales.of_filter = reinterpret_cast<const int*>(params.filters + filters.scales_at());
  }
  // What is added to y is read by those who write it.
  if (Arithmetic::stores_boxes && tiles.splits == 1 && !epilogue.accumulate)
    if (const auto boxes = boxes_of_outputs(p, filters.groups, call.y, Arithmetic::across))
      params.stores_boxes = encode_swizzled_stores(params.y_boxes, *boxes, p.dtype, call.y);
  return params;
}

/// Tells the copy engine how to read x. It rounds to TF32 what is not split after it. Returns false
/// where the driver does not take the map.
template <class Params>
bool encode_wide_map(Params& params, const Im2colMap& map, const void* from) {
  using Arithmetic = typename Params::Arithmetic;
  if constexpr (Arithmetic::splits_in_registers)
    return encode_im2col_of_f32(params.map, map, from);
  else
    return encode_im2col(params.map, map, Arithmetic::host.operand, from);
}

/// Tells the copy engine to read x as rows of pixels, where it can.
template <class Params>
bool encode_rows(Params& params, const WidePlan& plan, const Im2colMap& map, const void* from) {
  using Arithmetic = typename Params::Arithmetic;
  const auto rows = rows_of_pixels(map, plan.filters.all_taps());
  if (Arithmetic::splits_in_registers || !rows ||
      !encode_swizzled_tiles(params.map, *rows, Arithmetic::host.operand, from))
    return false;
  params.axes = 0;
  return true;
}

/// Says whether the copy engine reads x as it lies, and tells it how.
template <class Params>
bool reads_as_it_lies(Params& params, const ConvProblem& p, const WidePlan& plan,
                      const WideTiles& tiles) {
  if (plan.input.repacks || reinterpret_cast<std::uintptr_t>(params.x) % tensor_map_alignment != 0)
    return false;
  Im2colMap map = wide_im2col(p, plan.filters, nullptr);
  map.pixels = wide_shapes[tiles.shape].pixels_of_copy();
  return encode_rows(params, plan, map, params.x) || encode_wide_map(params, map, params.x);
}

/// Puts x into workspace, and tells the copy engine how to read it there.
template <class Params>
void repack(Params& params, const ConvProblem& p, const WidePlan& plan, const WideTiles& tiles,
            char* workspace, void* stream) {
  using Arithmetic = typename Params::Arithmetic;
  params.group_channels = plan.input.group_channels;
  Im2colMap map = wide_im2col(p, plan.filters, &plan.input);
  map.pixels = wide_shapes[tiles.shape].pixels_of_copy();
  if (!encode_rows(params, plan, map, workspace) && !encode_wide_map(params, map, workspace))
    throw Error(ErrorCode::unsupported,
                "the driver takes no im2col tensor map of this problem; expected CUDA 12 or newer");
  WideInputParams input(p, plan.filters, plan.input, params.x);
  input.packed = workspace;
  input.magnitudes = reinterpret_cast<std::uint32_t*>(workspace + plan.workspace.magnitudes);
  input.scales = reinterpret_cast<int*>(workspace + plan.workspace.scales);
  const int images = static_cast<int>(p.n);
  if (plan.input.region.columns > 0)
    repack_regions<typename Arithmetic::Stored, typename Arithmetic::Operand, Arithmetic::rounds>(
        input, WideRegionParams(p, input, plan.input), images, stream);
  else
    repack_wide<typename Arithmetic::Stored, typename Arithmetic::Operand, Arithmetic::rounds>(
        input, images, stream);
}

/// Starts the kernel of the plan's tiles, and the sum of its splits. `early`: the kernel before on
/// the stream is one of this launch's.
template <class Arithmetic, int number, WideFault fault = WideFault::none>
void launch_tiles(const WideParams<Arithmetic>& params, bool early, const DeviceInfo& device,
                  void* stream) {
  constexpr WideShape shape = wide_shape(Arithmetic::host, number);
  // A block takes a whole multiprocessor. Blocks of clusters have a tile together at most once.
  const bool clusters = params.whole < params.works;
  const int most = clusters ? params.cluster_blocks : std::max(device.units, 1);
  const int blocks = std::min(params.works, most);
  Launch launch(stream, static_cast<unsigned>(blocks), wide_threads, shape.shared_bytes());
  if (clusters) launch.cluster(params.cluster.value());
  if (early) launch.early();
  WideParams<Arithmetic> told = params;
  if (fault == WideFault::kept_small) told.scales.least_sum = 0;
  launch(wide<Arithmetic, number, fault>, told);
  if (params.splits > 1) launch_sum_splits<Arithmetic, fault>(told, stream);
}

/// Puts a convolution on the stream, of as many images at a time as workspace has room for where x
/// is repacked. `launch(params, early)` starts the kernel of the plan's tiles.
template <class Arithmetic, class F>
void launch_wide(const ConvProblem& problem, const WidePlan& plan, const WideCall& call,
                 const Epilogue<typename Arithmetic::Stored>& epilogue, void* stream,
                 const F& launch) {
  using Stored = typename Arithmetic::Stored;
  ConvProblem p = problem;
  WideTiles tiles = plan.tiles;
  WideParams<Arithmetic> all = wide_params<Arithmetic>(p, plan, tiles, call, epilogue);
  if (reads_as_it_lies(all, p, plan, tiles)) return launch(all, false);
  for (std::int64_t first = 0; first < problem.n; first += plan.input.images) {
    p.n = std::min<std::int64_t>(plan.input.images, problem.n - first);
    tiles.cover(p.n * p.z() * p.p() * p.q());
    WideCall some = call;
    some.x = static_cast<const Stored*>(call.x) + first * all.x_n;
    some.y = static_cast<Stored*>(call.y) + first * all.y_n;
    auto params = wide_params<Arithmetic>(p, plan, tiles, some, epilogue);
    repack(params, p, plan, tiles, call.workspace, stream);
    launch(params, true);
  }
}

/// Puts a convolution on the stream that reads planes as they lie, where it was planned and x is
/// aligned; otherwise returns false. `launch(params, false)` starts the kernel of the plan's tiles.
template <class Arithmetic, class F>
bool launch_wide_across(const ConvProblem& problem, const WidePlan& plan, const WideCall& call,
                        const Epilogue<typename Arithmetic::Stored>& epilogue, const F& launch) {
  if (!plan.across || reinterpret_cast<std::uintptr_t>(call.x) % tensor_map_alignment != 0)
    return false;
  const WideTiles& tiles = *plan.across;
  const ConvProblem p = flat_problem(problem);
  auto params = wide_params<Arithmetic>(p, plan, tiles, call, epilogue);
  params.axis[0].outputs = Divisor<int>(tiles.pixels / p.n);
  params.image_pixels = static_cast<int>(p.w);
  // Channels behind the last are the next image's, and meet the filters' zeros.
  params.repairs = p.c % Arithmetic::step_channels != 0 || Arithmetic::splits_operands;
  if (!encode_wide_map(params, wide_across_map(p), call.x)) return false;
  launch(params, false);
  return true;
}

/// Calls `f.operator()<number>()` for a shape's number, of those that there are kernels for.
template <class Arithmetic, int number = 0, class F>
void with_shape(int wanted, const F& f) {
  if constexpr (has_wide_shape(Arithmetic::host, Arithmetic::across, number))
    if (number == wanted) return f.template operator()<number>();
  if constexpr (number + 1 < wide_shape_count) with_shape<Arithmetic, number + 1>(wanted, f);
}

}  // namespace plumb::cuda
