// What a launch does: repacks x where it must, convolves, adds the parts of splits.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/primitives/im2col_of_f32.hpp"
#include "cuda_kernels/primitives/tensor_map.hpp"
#include "cuda_kernels/wide/wide_axes.hpp"
#include "cuda_kernels/wide/wide_input.cuh"
#include "cuda_kernels/wide/wide_kernel.cuh"
#include "cuda_kernels/wide/wide_pack.cuh"
#include "cuda_kernels/wide/wide_region.cuh"
#include "cuda_kernels/wide/wide_splits.cuh"

namespace plumb::cuda {

/// The tensors of a launch.
struct WideCall {
  const void* x;
  const void* filters;
  void* y;
  char* workspace;
};

inline WideAxis wide_axis(const WideMapAxis& of, std::int64_t y_step) {
  return {.taps = static_cast<int>(of.taps),
          .stride = static_cast<int>(of.step()),
          .dilation = of.taps > 1 ? static_cast<int>(of.dilation) : 1,
          .before = static_cast<int>(of.before),
          .outputs = Divisor<int>(of.outputs),
          .y_step = y_step};
}

/// Returns what the kernel is told of some images, but for the tensor map.
template <class Arithmetic>
WideParams<Arithmetic> wide_params(const ConvProblem& p, const WidePlan& plan,
                                   const WideTiles& tiles, const WideCall& call,
                                   const Epilogue<typename Arithmetic::Stored>& epilogue) {
  using Stored = typename Arithmetic::Stored;
  const Extents x = p.x_extents(), y = p.y_extents();
  const WideFilters& filters = plan.filters;
  const WideMapAxes axes(wide_product(p, filters.fold));
  const auto axis = [&](int i) {
    const int dimension = y.rank() - 1 - i;
    return wide_axis(axes.axis[i],
                     dimension >= 2 ? step<std::int64_t>(y, p.y_strides, dimension) : 0);
  };
  const auto* const packed = static_cast<const char*>(call.filters);
  WideParams<Arithmetic> params{
      .map = {},
      .x = static_cast<const Stored*>(call.x),
      .filters = packed,
      .y = static_cast<Stored*>(call.y),
      .sums = reinterpret_cast<float*>(call.workspace + plan.workspace.sums),
      .scales = {},
      .epilogue = epilogue,
      .axis = {axis(0), axis(1), axis(2)},
      .of_x = WideImageAxes(p),
      .x_n = step<std::int64_t>(x, p.x_strides, 0),
      .x_c = step<std::int64_t>(x, p.x_strides, 1),
      .y_n = step<std::int64_t>(y, p.y_strides, 0),
      .y_k = step<std::int64_t>(y, p.y_strides, 1),
      .plane_bytes = filters.plane_bytes(),
      .axes = axes.count,
      .groups = filters.groups,
      .x_channels = filters.fold.channels,
      .group_channels = filters.groups.channels,
      .low_channels = plan.input.plane_channels(),
      .rows = filters.rows,
      .all_rows = filters.all_rows(),
      .channel_blocks = filters.channel_blocks,
      .steps = filters.steps(),
      .splits = tiles.splits,
      .pixels = static_cast<int>(tiles.pixels),
      .works = static_cast<int>(tiles.works()),
      .image_pixels = 0,
      .n_tiles = Divisor<int>(std::int64_t{tiles.n_tiles} * tiles.groups),
      .of_group = Divisor<int>(tiles.n_tiles),
      .m_tiles = Divisor<int>(tiles.m_tiles),
      .access = access_of_outputs(p, filters.groups, call.y),
      .lays_out_filters = p.y_strides[1] == 1 && p.k > 1,
      // Zeros of the padding, and those of a group for channels of others, may have met Inf.
      .repairs = p.padding != Padding{} || p.groups > 1 || Arithmetic::splits_operands};
  if constexpr (Arithmetic::splits_operands)
    params.scales.dense = reinterpret_cast<const float*>(packed + filters.dense_at());
  if constexpr (Arithmetic::splits_in_memory) {
    params.scales.of_image =
        reinterpret_cast<const int*>(call.workspace + plan.workspace.exponents);
    params.scales.of_filter = reinterpret_cast<const int*>(packed + filters.exponents_at());
  }
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

/// Says whether the copy engine reads x as it lies, and tells it how.
template <class Params>
bool reads_as_it_lies(Params& params, const ConvProblem& p, const WidePlan& plan,
                      const WideTiles& tiles) {
  if (plan.input.repacks || reinterpret_cast<std::uintptr_t>(params.x) % tensor_map_alignment != 0)
    return false;
  Im2colMap map = wide_im2col(p, plan.filters, nullptr);
  map.pixels = wide_shapes[tiles.shape].pixels_of_copy();
  return encode_wide_map(params, map, params.x);
}

/// Puts x into workspace, and tells the copy engine how to read it there.
template <class Params>
void repack(Params& params, const ConvProblem& p, const WidePlan& plan, const WideTiles& tiles,
            char* workspace, void* stream) {
  using Arithmetic = typename Params::Arithmetic;
  params.group_channels = plan.input.group_channels;
  Im2colMap map = wide_im2col(p, plan.filters, &plan.input);
  map.pixels = wide_shapes[tiles.shape].pixels_of_copy();
  if (!encode_wide_map(params, map, workspace))
    throw Error(ErrorCode::unsupported,
                "the driver takes no im2col tensor map of this problem; expected CUDA 12 or newer");
  WideInputParams input(p, plan.filters, plan.input, params.x);
  input.packed = workspace;
  input.magnitudes = reinterpret_cast<int*>(workspace + plan.workspace.magnitudes);
  input.exponents = reinterpret_cast<int*>(workspace + plan.workspace.exponents);
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
  // A block takes a whole multiprocessor.
  const int blocks = std::min(params.works, std::max(device.units, 1));
  Launch launch(stream, static_cast<unsigned>(blocks), wide_threads, shape.shared_bytes());
  if (early) launch.early();
  launch(wide<Arithmetic, number, fault>, params);
  if (params.splits > 1) launch_sum_splits<Arithmetic, fault>(params, stream);
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
