// What a launch does: repacks x and dy where it must, multiplies, adds the splits.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/primitives/tensor_map.hpp"
#include "cuda_kernels/wide/wide_axes.hpp"
#include "cuda_kernels/wide/wide_input.cuh"
#include "cuda_kernels/wide/wide_region.cuh"
#include "cuda_kernels/wide_weights/wide_weights_finish.cuh"
#include "cuda_kernels/wide_weights/wide_weights_kernel.cuh"

namespace plumb::cuda {

/// Tells the copy engine how to read an operand, which is repacked first where it must be. Returns
/// whether it was.
template <class Arithmetic>
bool read_operand(const WideWeightsOperand& operand, const void* data, char* workspace,
                  CUtensorMap& map, WideWeightsTensor& tensor, void* stream) {
  const WideFilters& channels = operand.channels;
  const DType type = Arithmetic::host.operand;
  tensor = {.axes = WideMapAxes(wide_product(operand.image, channels.fold)).count,
            .group_channels = channels.groups.channels,
            .low_channels = 0,
            .exponent = nullptr};
  const auto encode = [&](const WideInput* repacked, const void* address) {
    Im2colMap of = wide_im2col(operand.image, channels, repacked);
    of.pixels = wide_weights_pixels;
    return encode_im2col(map, of, type, address);
  };
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % tensor_map_alignment == 0;
  if (!operand.input.repacks && aligned && encode(nullptr, data)) return false;
  char* const packed = workspace + operand.packed;
  if (!encode(&operand.input, packed))
    throw Error(ErrorCode::unsupported,
                "the driver takes no im2col tensor map of this problem; expected CUDA 12 or newer");
  tensor.group_channels = operand.input.group_channels;
  tensor.low_channels = operand.input.plane_channels();
  WideInputParams input(operand.image, channels, operand.input, data);
  input.packed = packed;
  input.magnitudes = reinterpret_cast<int*>(workspace + operand.magnitudes);
  input.exponents = reinterpret_cast<int*>(workspace + operand.exponent);
  input.one_scale = true;
  if (Arithmetic::host.scales()) tensor.exponent = input.exponents;
  using Stored = typename Arithmetic::Stored;
  using Operand = typename Arithmetic::Operand;
  const int images = static_cast<int>(operand.image.n);
  if (operand.input.region.columns > 0)
    repack_regions<Stored, Operand, Arithmetic::products>(
        input, WideRegionParams(operand.image, input, operand.input), images, stream);
  else
    repack_wide<Stored, Operand, Arithmetic::products>(input, images, stream);
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
  return {.x_map = {},
          .dy_map = {},
          .x = {},
          .dy = {},
          .sums = reinterpret_cast<float*>(workspace + plan.sums),
          .axis = {axis(0), axis(1), axis(2)},
          .filters = groups.filters,
          .rows = plan.rows(),
          .columns = plan.columns(),
          .filter_blocks = plan.dy.blocks,
          .channel_blocks = plan.x.blocks,
          .column_blocks = plan.column_blocks(),
          .groups = groups.count,
          .steps = cut.steps,
          .splits = cut.splits,
          .works = cut.m_tiles * cut.n_tiles * groups.count * cut.splits,
          .m_tiles = Divisor<int>(cut.m_tiles),
          .n_tiles = Divisor<int>(cut.n_tiles),
          .of_groups = Divisor<int>(groups.count)};
}

/// Adds so many splits, of which there are none where there is no image.
template <class Stored, WideWeightsFault fault>
void launch_adding(const WideWeightsPlan& plan, const WideWeightsParams& params, int splits,
                   const WideWeightsCall& call, void* stream) {
  const WideFilters& channels = plan.x.channels;
  const bool many = splits > wide_weights_chains;
  const int chunks = static_cast<int>(
      ceil_div(plan.columns(), many ? added_columns<wide_weights_chains> : added_columns<1>));
  const WideWeightsAdding adding{
      .plan = {.sizes = plan.sizes, .cut = {}, .strides = plan.strides},
      .fold = channels.fold,
      .groups = plan.groups(),
      .taps = {Divisor<int>(channels.taps[0]), Divisor<int>(channels.taps[1])},
      .channel_blocks = Divisor<int>(plan.x.blocks),
      .own_channels = Divisor<int>(plan.groups().own_channels),
      .own_filters = Divisor<int>(plan.groups().own_filters),
      .rows = plan.rows(),
      .columns = plan.columns(),
      .splits = splits,
      .column_chunks = Divisor<int>(chunks),
      .split_sums = std::int64_t{plan.groups().count} * plan.rows() * plan.columns(),
      .sums = params.sums,
      .x_exponent = params.x.exponent,
      .dy_exponent = params.dy.exponent,
      .accumulate = call.accumulate,
      // Zeros of the padding may have met Inf, or operands did not fit.
      .repairs = plan.x.image.padding != Padding{} || plan.of.scales()};
  const std::int64_t filters = std::int64_t{plan.groups().count} * plan.groups().filters;
  Launch launch(stream, static_cast<unsigned>(filters * chunks), weights::finish_threads);
  launch.early();
  const auto *const x = static_cast<const Stored*>(call.x), *const dy =
                                                                static_cast<const Stored*>(call.dy);
  auto* const dw = static_cast<Stored*>(call.dw);
  if (many)
    launch(add_wide_weights<Stored, fault, wide_weights_chains>, adding, x, dy, dw);
  else
    launch(add_wide_weights<Stored, fault, 1>, adding, x, dy, dw);
}

/// Puts a gradient on the stream, with tiles of the plan's shape, which is `number`.
template <class Arithmetic, int number, WideWeightsFault fault = WideWeightsFault::none>
void launch_wide_weights(const WideWeightsPlan& plan, const WideWeightsCall& call,
                         const DeviceInfo& device, void* stream) {
  constexpr WideShape shape = wide_shapes[number];
  WideWeightsParams params = wide_weights_params(plan, call.workspace);
  if (plan.x.image.n == 0)
    return launch_adding<typename Arithmetic::Stored, fault>(plan, params, 0, call, stream);
  bool early =
      read_operand<Arithmetic>(plan.x, call.x, call.workspace, params.x_map, params.x, stream);
  early = read_operand<Arithmetic>(plan.dy, call.dy, call.workspace, params.dy_map, params.dy,
                                   stream) ||
          early;
  // A block takes a whole multiprocessor.
  const int blocks = std::min(params.works, std::max(device.units, 1));
  Launch launch(stream, static_cast<unsigned>(blocks), wide_threads, shape.shared_bytes());
  if (early) launch.early();
  launch(wide_weights<Arithmetic, number, fault>, params);
  launch_adding<typename Arithmetic::Stored, fault>(plan, params, plan.cut.splits, call, stream);
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
