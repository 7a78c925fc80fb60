// What a launch does: repacks x and dy where it must, multiplies, adds the splits.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/primitives/im2col_of_f32.hpp"
#include "cuda_kernels/primitives/im2col_rows.hpp"
#include "cuda_kernels/primitives/swizzled_map.hpp"
#include "cuda_kernels/primitives/tensor_map.hpp"
#include "cuda_kernels/wide/wide_axes.hpp"
#include "cuda_kernels/wide/wide_region.cuh"
#include "cuda_kernels/wide/wide_repack.cuh"
#include "cuda_kernels/wide_weights/wide_weights_finish.cuh"
#include "cuda_kernels/wide_weights/wide_weights_kernel.cuh"

namespace plumb::cuda {

/// Tells the copy engine how to read a tensor; it rounds to TF32 what is not split after it.
/// Returns false where the driver does not take the map.
template <class Arithmetic>
bool encode_operand(CUtensorMap& map, const Im2colMap& of, const void* address) {
  if constexpr (Arithmetic::splits_in_registers)
    return encode_im2col_of_f32(map, of, address);
  else
    return encode_im2col(map, of, Arithmetic::host.operand, address);
}

inline bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % tensor_map_alignment == 0;
}

/// Tells the copy engine how to read planes as they lie, if it can.
template <class Across>
bool read_planes(const WideWeightsOperand& operand, const void* data, CUtensorMap& map,
                 WideWeightsTensor& tensor) {
  const ConvProblem flat = flat_problem(with_own_outputs(operand.image));
  tensor = {.axes = 1,
            .group_channels = operand.channels.groups.channels,
            .low_channels = 0,
            .has_rows = false,
            .scale = nullptr};
  return is_aligned(data) && encode_operand<Across>(map, wide_across_map(flat), data);
}

/// Tells the copy engine how to read an operand, which is repacked first where it must be. Returns
/// whether it was.
template <class Arithmetic>
bool read_operand(const WideWeightsOperand& operand, const void* data, char* workspace,
                  CUtensorMap& map, WideWeightsTensor& tensor, void* stream) {
  const WideFilters& channels = operand.channels;
  tensor = {.axes = WideMapAxes(wide_product(operand.image, channels.fold)).count,
            .group_channels = channels.groups.channels,
            .low_channels = 0,
            .has_rows = false,
            .scale = nullptr};
  const auto encode = [&](const WideInput* repacked, const void* address) {
    Im2colMap of = wide_im2col(operand.image, channels, repacked);
    of.pixels = weights_block<Arithmetic>;
    if constexpr (!Arithmetic::splits_in_registers)
      if (const auto rows = rows_of_pixels(of, channels.all_taps())) {
        tensor.has_rows = encode_swizzled_tiles(map, *rows, Arithmetic::host.operand, address);
        if (tensor.has_rows) return true;
      }
    return encode_operand<Arithmetic>(map, of, address);
  };
  if (!operand.input.repacks && is_aligned(data) && encode(nullptr, data)) return false;
  char* const packed = workspace + operand.packed;
  if (!encode(&operand.input, packed))
    throw Error(ErrorCode::unsupported,
                "the driver takes no im2col tensor map of this problem; expected CUDA 12 or newer");
  tensor.group_channels = operand.input.group_channels;
  tensor.low_channels = operand.input.plane_channels();
  WideInputParams input(operand.image, channels, operand.input, data);
  input.packed = packed;
  input.magnitudes = reinterpret_cast<std::uint32_t*>(workspace + operand.magnitudes);
  input.scales = reinterpret_cast<int*>(workspace + operand.scale);
  input.one_scale = true;
  if (Arithmetic::host.scales()) tensor.scale = input.scales;
  using Stored = typename Arithmetic::Stored;
  using Operand = typename Arithmetic::Operand;
  const int images = static_cast<int>(operand.image.n);
  if (operand.input.region.columns > 0)
    repack_regions<Stored, Operand, Arithmetic::rounds>(
        input, WideRegionParams(operand.image, input, operand.input), images, stream);
  else
    repack_wide<Stored, Operand, Arithmetic::rounds>(input, images, stream);
  return true;
}

/// Returns what the kernel is told, but for the tensors.
inline WideWeightsParams wide_weights_params(const WideWeightsPlan& plan, char* workspace) {
  const WideMapAxes axes(wide_product(plan.x.image, plan.x.channels.fold));
  const auto axis = [&](int i) {
    const WideMapAxis& of = axes.axis[i];
    return WideWeightsAxis{.stride = static_cast<int>(of.step()),
                           .before = static_cast<int>(of.before),
                           .dilation = of.taps > 1 ? static_cast<int>(of.dilation) : 1,
                           .taps = static_cast<int>(of.taps),
                           .outputs = Divisor<int>(of.outputs)};
  };
  const WideGroups& groups = plan.groups();
  const WideWeightsCut& cut = plan.cut;
  // A step has as many pixels as a block has channels; a sum has no more terms.
  const float terms = static_cast<float>(cut.steps) * wide_weights_block(plan.of);
  return {
      .x_map = {},
      .dy_map = {},
      .x = {},
      .dy = {},
      .sums = reinterpret_cast<float*>(workspace + plan.sums),
      .least_sum = terms * (plan.of.products == 3 ? least_sum_of_small<3> : least_sum_of_small<1>),
      .direct = {.dw = nullptr, .doubted = nullptr, .places = WeightsPlaces(plan)},
      .axis = {axis(0), axis(1), axis(2)},
      .filters = groups.filters,
      .rows = plan.rows(),
      .columns = plan.columns(),
      .filter_blocks = plan.dy.blocks,
      .channel_blocks = plan.x.blocks,
      .tile_columns = WeightsColumns(plan.column_blocks(), cut.n_tiles),
      .groups = groups.count,
      .steps = cut.steps,
      .splits = cut.splits,
      .works = cut.m_tiles * cut.n_tiles * groups.count * cut.splits,
      .m_tiles = Divisor<int>(cut.m_tiles),
      .n_tiles = Divisor<int>(cut.n_tiles),
      .of_groups = Divisor<int>(groups.count),
      .image_steps = Divisor<int>(1)};
}

/// Adds so many splits, of which there are none where there is no image.
template <class Stored, WideWeightsFault fault>
void launch_adding(const WideWeightsPlan& plan, const WideWeightsParams& params, int splits,
                   const WideWeightsCall& call, void* stream) {
  const bool many = splits > wide_weights_chains;
  const int most = many ? added_columns<wide_weights_chains> : added_columns<1>;
  const WeightsAccess access = weights_access(plan, call.dw, most);
  const WeightsChunk chunk(plan, access, most);
  const int row_channels = plan.x.blocks * wide_weights_block(plan.of),
            channel_chunks = static_cast<int>(ceil_div(row_channels, chunk.channels)),
            tap_chunks = static_cast<int>(ceil_div(plan.taps(), chunk.taps));
  const auto blocks = [&](int filters) {
    return plan.groups().count * ceil_div(std::int64_t{plan.groups().filters}, filters) *
           channel_chunks * tap_chunks;
  };
  // Several filters of a block share what it finds out of places, where there are blocks enough.
  constexpr int several = 4, min_blocks = 256;
  const bool shares = !many && blocks(several) >= min_blocks;
  const int filters = shares ? several : 1;
  const WideWeightsAdding adding{
      .plan = {.sizes = plan.sizes, .cut = {}, .strides = plan.strides},
      .places = WeightsPlaces(plan),
      .access = access,
      .rows = plan.rows(),
      .row_channels = row_channels,
      .taps = plan.taps(),
      .splits = splits,
      .chunk_channels = chunk.channels,
      .chunk_taps = chunk.taps,
      .channel_chunks = Divisor<int>(channel_chunks),
      .tap_chunks = Divisor<int>(tap_chunks),
      .filter_chunks = Divisor<int>(ceil_div(plan.groups().filters, filters)),
      .chunk_vectors = Divisor<int>(chunk.channels / 4),
      .split_sums = std::int64_t{plan.groups().count} * plan.rows() * plan.columns(),
      .sums = params.sums,
      .x_scale = params.x.scale,
      .dy_scale = params.dy.scale,
      .least_sum = params.least_sum,
      .accumulate = call.accumulate,
      .repairs = plan.repairs(),
      .repairs_infinite = plan.of.splits_in_registers()};
  Launch launch(stream, static_cast<unsigned>(blocks(filters)), weights::finish_threads);
  launch.early();
  const auto *const x = static_cast<const Stored*>(call.x), *const dy =
                                                                static_cast<const Stored*>(call.dy);
  auto* const dw = static_cast<Stored*>(call.dw);
  if (many)
    launch(add_wide_weights<Stored, fault, wide_weights_chains, 1>, adding, x, dy, dw);
  else if (shares)
    launch(add_wide_weights<Stored, fault, 1, several>, adding, x, dy, dw);
  else
    launch(add_wide_weights<Stored, fault, 1, 1>, adding, x, dy, dw);
}

/// Looks at the tiles again whose sums may be wrong.
template <class Stored, WideWeightsFault fault>
void launch_repair(const WideWeightsPlan& plan, const WideWeightsParams& params,
                   const WideWeightsCall& call, void* stream) {
  const WideShape& shape = wide_shapes[plan.cut.shape];
  const WideWeightsRepair repair{.plan = {.sizes = plan.sizes, .cut = {}, .strides = plan.strides},
                                 .direct = params.direct,
                                 .tile_columns = params.tile_columns,
                                 .filters = params.filters,
                                 .block = wide_weights_block(plan.of),
                                 .m = shape.m,
                                 .n = shape.n,
                                 .m_tiles = params.m_tiles,
                                 .n_tiles = params.n_tiles};
  Launch launch(stream, static_cast<unsigned>(params.works), weights::finish_threads);
  launch.early();
  launch(repair_wide_weights<Stored, fault>, repair, static_cast<const Stored*>(call.x),
         static_cast<const Stored*>(call.dy));
}

/// Starts the products and the sum of the splits. `early`: the kernel before on the stream is one
/// of this launch's.
template <class Arithmetic, int number, WideWeightsFault fault>
void launch_tiles_of_weights(const WideWeightsPlan& plan, const WideWeightsParams& params,
                             const WideWeightsCall& call, bool early, const DeviceInfo& device,
                             void* stream) {
  // A block takes a whole multiprocessor.
  const int blocks = std::min(params.works, std::max(device.units, 1));
  Launch launch(stream, static_cast<unsigned>(blocks), wide_threads,
                wide_shapes[number].shared_bytes());
  if (early) launch.early();
  launch(wide_weights<Arithmetic, number, fault>, params);
  using Stored = typename Arithmetic::Stored;
  if (!params.direct.dw)
    launch_adding<Stored, fault>(plan, params, plan.all_sums(), call, stream);
  else if (params.direct.doubted)
    launch_repair<Stored, fault>(plan, params, call, stream);
}

/// Puts a gradient on the stream, with tiles of the plan's shape, which is `number`.
template <class Arithmetic, int number, WideWeightsFault fault = WideWeightsFault::none>
void launch_wide_weights(const WideWeightsPlan& plan, const WideWeightsCall& call,
                         const DeviceInfo& device, void* stream) {
  WideWeightsParams params = wide_weights_params(plan, call.workspace);
  if (plan.x.image.n == 0)
    return launch_adding<typename Arithmetic::Stored, fault>(plan, params, 0, call, stream);
  if (stores_directly(plan, call)) {
    params.direct.dw = call.dw;
    // Where the sums would be, which are more.
    if (plan.repairs()) params.direct.doubted = reinterpret_cast<int*>(params.sums);
  }
  if constexpr (weights_in_registers(Arithmetic::host)) {
    using Across = WideArithmetic<typename Arithmetic::Stored, typename Arithmetic::Operand,
                                  Arithmetic::products, true>;
    if (plan.across && read_planes<Across>(plan.x, call.x, params.x_map, params.x) &&
        read_planes<Across>(plan.dy, call.dy, params.dy_map, params.dy)) {
      params.steps = plan.steps(true);
      params.image_steps = Divisor<int>(params.steps / plan.x.image.n);
      return launch_tiles_of_weights<Across, number, fault>(plan, params, call, false, device,
                                                            stream);
    }
    params.steps = plan.steps(false);
  }
  bool early =
      read_operand<Arithmetic>(plan.x, call.x, call.workspace, params.x_map, params.x, stream);
  early = read_operand<Arithmetic>(plan.dy, call.dy, call.workspace, params.dy_map, params.dy,
                                   stream) ||
          early;
  launch_tiles_of_weights<Arithmetic, number, fault>(plan, params, call, early, device, stream);
}

/// The same with the shape that the plan has.
template <class Arithmetic, int number = 0>
void launch_planned_weights(const WideWeightsPlan& plan, const WideWeightsCall& call,
                            const DeviceInfo& device, void* stream) {
  if constexpr (number < wide_shape_count) {
    if constexpr (wide_weights_has(wide_shapes[number], moves_sums(Arithmetic::host)))
      if (plan.cut.shape == number)
        return launch_wide_weights<Arithmetic, number>(plan, call, device, stream);
    launch_planned_weights<Arithmetic, number + 1>(plan, call, device, stream);
  } else {
    throw std::logic_error("no kernel is compiled for the tile of backward weights");
  }
}

}  // namespace plumb::cuda
