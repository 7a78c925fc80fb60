// What a launch does: repacks x where it must, and convolves.
#pragma once

#include "cuda_kernels/primitives/swizzled_map.hpp"
#include "cuda_kernels/wide/wide_call.cuh"
#include "cuda_kernels/wide/wide_pack.cuh"
#include "cuda_kernels/wide/wide_repack.cuh"
#include "cuda_kernels/wide_patch/wide_patch_kernel.cuh"
#include "cuda_kernels/wide_patch/wide_patch_phases.hpp"

namespace plumb::cuda {

/// Tells the kernel of the phases of rows and columns, but for their tensor maps.
template <class Params>
void set_phases(Params& params, const ConvProblem& p) {
  const PatchPlanePhases of(p);
  params.phases = static_cast<int>(of.count());
  params.apart[0] = static_cast<int>(of.columns.axis(0).dilation);
  params.apart[1] = static_cast<int>(of.rows.axis(0).dilation);
  params.next_tap[0] = static_cast<int>(of.columns.tap_step());
  params.next_tap[1] = static_cast<int>(of.rows.tap_step() * p.s);
  for (int i = 0; i < params.phases; ++i) params.phase[i] = patch_phase(p, i);
}

/// Returns what the kernel is told of some images, but for the tensor maps.
template <class Arithmetic>
PatchParams<Arithmetic> patch_params(const ConvProblem& p, const PatchPlan& plan,
                                     const WideCall& call,
                                     const Epilogue<typename Arithmetic::Stored>& epilogue) {
  PatchTiles tiles = Arithmetic::across ? *plan.across : plan.tiles;
  tiles.cover(p.n);
  PatchParams<Arithmetic> params{
      wide_params<Arithmetic>(p, plan.filters, plan.input, call, epilogue)};
  params.tile = tiles.tile;
  params.patch_bytes = tiles.tile.patch_bytes();
  params.patches = tiles.patches, params.stages = tiles.stages;
  params.keeps_filters = tiles.keeps_filters;
  params.works = static_cast<int>(tiles.works());
  params.images = static_cast<int>(p.n);
  params.n_tiles = Divisor<int>(std::int64_t{tiles.filter_tiles} * tiles.groups);
  params.of_group = Divisor<int>(tiles.filter_tiles);
  params.tile_columns = Divisor<int>(tiles.columns), params.tile_rows = Divisor<int>(tiles.rows);
  params.pitch = Divisor<int>(tiles.tile.pitch), params.lines = Divisor<int>(tiles.tile.lines);
  set_phases(params, p);
  params.patches_of_work = params.axis[2].taps * params.channel_blocks * params.phases;
  // Of planes as they lie channels behind the last are zeros, and meet the filters' zeros.
  if (Arithmetic::across) params.repairs = false;
  // Outputs of two bytes are staged as they are stored, and what has been stored is not there to
  // be added to again.
  const bool adds =
      !params.repairs && (Arithmetic::across || sizeof(typename Arithmetic::Stored) == 4);
  if (params.access != WideAccess::filters && (adds || !epilogue.accumulate))
    params.run = run_of_outputs(p, tiles.tile, call.y);
  return params;
}

/// Tells the copy engine how to read x, as it lies or repacked. Returns false where the driver does
/// not take the map.
template <class Params>
bool encode_patches(Params& params, const ConvProblem& p, const PatchPlan& plan,
                    const WideInput* repacked, const void* from) {
  for (int i = 0; i < params.phases; ++i) {
    const PatchMap of = patch_map(p, plan.filters, plan.tiles.tile, repacked, i);
    if (!encode_swizzled_tiles(params.map_of(i), of.map, Params::Arithmetic::host.operand,
                               static_cast<const char*>(from) + of.first_byte))
      return false;
  }
  return true;
}

/// Starts the kernel of the plan's tiles. `early`: the kernel before on the stream is one of this
/// launch's.
template <class Arithmetic, int kernel, PatchFault fault = PatchFault::none>
void launch_patches(const PatchParams<Arithmetic>& params, const PatchTiles& tiles, bool early,
                    const DeviceInfo& device, void* stream) {
  // A block takes a whole multiprocessor.
  const int blocks = std::min(params.works, std::max(device.units, 1));
  Launch launch(stream, static_cast<unsigned>(blocks), patch_threads, tiles.shared_bytes());
  if (early) launch.early();
  constexpr int n8_tiles = patch_n8_tiles[kernel];
  if constexpr (!Arithmetic::across && has_half_steps(n8_tiles))
    if (tiles.half_steps) return launch(wide_patch<Arithmetic, n8_tiles, 2, fault>, params);
  launch(wide_patch<Arithmetic, n8_tiles, 4, fault>, params);
}

/// Puts a convolution on the stream, of as many images at a time as workspace has room for where x
/// is repacked. `launch(params, early)` starts the kernel of the plan's tiles.
template <class Arithmetic, class F>
void launch_wide_patch(const ConvProblem& problem, const PatchPlan& plan, const WideCall& call,
                       const Epilogue<typename Arithmetic::Stored>& epilogue, void* stream,
                       const F& launch) {
  using Stored = typename Arithmetic::Stored;
  ConvProblem p = problem;
  auto all = patch_params<Arithmetic>(p, plan, call, epilogue);
  const bool aligned = reinterpret_cast<std::uintptr_t>(call.x) % tensor_map_alignment == 0;
  if (!plan.input.repacks && aligned && encode_patches(all, p, plan, nullptr, call.x))
    return launch(all, false);
  for (std::int64_t first = 0; first < problem.n; first += plan.input.images) {
    p.n = std::min<std::int64_t>(plan.input.images, problem.n - first);
    WideCall some = call;
    some.x = static_cast<const Stored*>(call.x) + first * all.x_n;
    some.y = static_cast<Stored*>(call.y) + first * all.y_n;
    auto params = patch_params<Arithmetic>(p, plan, some, epilogue);
    params.group_channels = plan.input.group_channels;
    if (!encode_patches(params, p, plan, &plan.input, call.workspace))
      throw Error(ErrorCode::unsupported,
                  "the driver takes no tensor map of this problem; expected CUDA 12 or newer");
    WideInputParams input(p, plan.filters, plan.input, some.x);
    input.packed = call.workspace;
    repack_wide<Stored, typename Arithmetic::Operand, 1>(input, static_cast<int>(p.n), stream);
    launch(params, true);
  }
}

/// Puts a convolution on the stream that reads planes as they lie, where it was planned and x is
/// aligned; otherwise returns false. `launch(params, false)` starts the kernel of the plan's tiles.
template <class Arithmetic, class F>
bool launch_patch_across(const ConvProblem& problem, const PatchPlan& plan, const WideCall& call,
                         const Epilogue<typename Arithmetic::Stored>& epilogue, const F& launch) {
  if (!plan.across || reinterpret_cast<std::uintptr_t>(call.x) % tensor_map_alignment != 0)
    return false;
  const ConvProblem p = flat_problem(problem);
  auto params = patch_params<Arithmetic>(p, plan, call, epilogue);
  if (!encode_swizzled_tiles(params.map, patch_across_map(p), Arithmetic::host.operand, call.x))
    return false;
  launch(params, false);
  return true;
}

/// Calls `f.operator()<kernel>()` for the number of one of patch_n8_tiles that the arithmetic has.
template <class Arithmetic, int kernel = 0, class F>
void with_patch_kernel(int wanted, const F& f) {
  if constexpr (!Arithmetic::across || patch_n8_tiles[kernel] % 8 == 0)
    if (kernel == wanted) return f.template operator()<kernel>();
  if constexpr (kernel + 1 < patch_kernels) with_patch_kernel<Arithmetic, kernel + 1>(wanted, f);
}

/// Puts a convolution on the stream as planned. `Across` is the arithmetic that reads planes as
/// they lie; where there is none, `Arithmetic`.
template <class Arithmetic, class Across, PatchFault fault = PatchFault::none>
void launch_planned_patches(const ConvProblem& problem, const PatchPlan& plan, const WideCall& call,
                            const Epilogue<typename Arithmetic::Stored>& epilogue,
                            const DeviceInfo& device, void* stream) {
  const auto launch_of = [&](const PatchTiles& tiles) {
    return [&]<class Of>(const PatchParams<Of>& params, bool early) {
      with_patch_kernel<Of>(tiles.kernel, [&]<int kernel>() {
        launch_patches<Of, kernel, fault>(params, tiles, early, device, stream);
      });
    };
  };
  if constexpr (Across::across)
    if (plan.across &&
        launch_patch_across<Across>(problem, plan, call, epilogue, launch_of(*plan.across)))
      return;
  launch_wide_patch<Arithmetic>(problem, plan, call, epilogue, stream, launch_of(plan.tiles));
}

}  // namespace plumb::cuda
