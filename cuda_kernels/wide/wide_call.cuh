// What kernels of wide problems are told at launch, but for what belongs to their tiles.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/wide/wide_params.cuh"

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

/// Returns what a kernel is told of some images, but for the tensor map, tiles and scales.
template <class Arithmetic>
WideParams<Arithmetic> wide_params(const ConvProblem& p, const WideFilters& filters,
                                   const WideInput& input, const WideCall& call,
                                   const Epilogue<typename Arithmetic::Stored>& epilogue) {
  using Stored = typename Arithmetic::Stored;
  const Extents x = p.x_extents(), y = p.y_extents();
  const WideMapAxes axes(wide_product(p, filters.fold));
  const auto axis = [&](int i) {
    const int dimension = y.rank() - 1 - i;
    return wide_axis(axes.axis[i],
                     dimension >= 2 ? step<std::int64_t>(y, p.y_strides, dimension) : 0);
  };
  return {.map = {},
          .y_boxes = {},
          .x = static_cast<const Stored*>(call.x),
          .filters = static_cast<const char*>(call.filters),
          .y = static_cast<Stored*>(call.y),
          .sums = nullptr,
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
          .low_channels = input.plane_channels(),
          .rows = filters.rows,
          .all_rows = filters.all_rows(),
          .channel_blocks = filters.channel_blocks,
          .steps = filters.steps(),
          .splits = 1,
          .pixels = 0,
          .works = 0,
          .whole = 0,
          .cluster_blocks = 0,
          .cluster = {},
          .image_pixels = 0,
          .n_tiles = {},
          .of_group = {},
          .m_tiles = {},
          .access = access_of_outputs(p, filters.groups, call.y),
          .lays_out_filters = p.y_strides[1] == 1 && p.k > 1,
          // Zeros of the padding, and those of a group for channels of others, may have met Inf.
          .repairs = p.padding != Padding{} || p.groups > 1 || Arithmetic::splits_operands,
          .stores_boxes = false};
}

}  // namespace plumb::cuda
