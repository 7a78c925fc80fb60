// This is the kernel of interleaved.cu and interleaved_half.cu, with the packing of its filters and
// its entries in the list of algorithms.
#pragma once

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>

#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/few_channels/window_filters.cuh"
#include "cuda_kernels/few_channels/windows.hpp"
#include "cuda_kernels/interleaved/interleaved_chunks.cuh"
#include "cuda_kernels/interleaved/interleaved_consumer.cuh"
#include "cuda_kernels/interleaved/interleaved_epilogue.cuh"
#include "cuda_kernels/interleaved/interleaved_pixels.cuh"
#include "cuda_kernels/interleaved/interleaved_producer.cuh"
#include "cuda_kernels/primitives/compile_time.hpp"

namespace plumb::cuda {

using OutputRows = CompileTime<1, 2, 4, max_output_rows>;
using OutputColumns = CompileTime<1, max_output_columns>;

/// Prepares what a block's warps need before they part. The whole block calls it; it ends with a
/// barrier.
template <class Params>
__device__ void prepare(const Params& params, InterleavedControl& control) {
  const InterleavedTeam team(params);
  const auto& header =
      *reinterpret_cast<const PackedHeader*>(params.packed + team.number * params.group_bytes);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    for (int i = 0; i < 2; ++i) {
      control.full[i].init(Params::Roles::producer_warps(params.streams()) * 32);
      control.empty[i].init(interleaved_warpgroups * 128);
    }
    for (auto& of_warpgroup : control.output_full)
      for (Mbarrier& of_warp : of_warpgroup) of_warp.init(32);
    for (auto& of_warpgroup : control.output_empty)
      for (Mbarrier& of_warp : of_warpgroup) of_warp.init(32);
    for (int i = 0; i < params.filter_stages; ++i) {
      control.filters_full[i].init();
      control.filters_empty[i].init(interleaved_warpgroups);
    }
    for (int& met : control.met) met = 0;
    clear_header(control);
  }
  __syncthreads();
  write_lines(params);
  take_header(header, params.group_filters, team.number * params.different_filters, params.spread,
              params.conv.k.value(), params.epilogue.bias, control);
  __syncthreads();
}

/// The outputs that epilogue warps store at once: neighbours of a row, or filters of a pixel.
enum class StoredAlong { rows, filters };

template <class Scheme, int rows, int columns, StoredAlong along>
__global__ void __launch_bounds__(InterleavedRoles<Scheme>::threads, 1)
    interleaved([[maybe_unused]] const __grid_constant__ InterleavedParams<Scheme> params) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Roles = InterleavedRoles<Scheme>;
  auto& control = *reinterpret_cast<InterleavedControl*>(dynamic_shared());
  prepare(params, control);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= Roles::first_producer) {
    take_registers<Roles::begin_registers, Roles::registers.producer>();
    if (Roles::producer() < Roles::producer_warps(params.streams()) * 32)
      return produce<rows, columns>(params, control);
    if (thread % 32 == 0) produce_filters(params, control);
  } else if (thread >= Roles::first_epilogue) {
    take_registers<Roles::begin_registers, Roles::registers.epilogue>();
    if (!params.streams() && thread == Roles::first_epilogue) produce_filters(params, control);
    __syncwarp();
    if constexpr (along == StoredAlong::filters)
      store_pixels<rows>(params, control);
    else
      run_epilogue<rows, columns>(params, control);
  } else {
    take_registers<Roles::begin_registers, Roles::registers.consumer>();
    if (params.chunks == 1)
      consume(params, control);
    else if (params.streams())
      consume_chunks<true>(params, control);
    else
      consume_chunks<false>(params, control);
  }
#endif
}

struct InterleavedPacking {
  int rows, columns, spread, group_filters, chunks, chunk_channels, k_steps, k_step_bytes,
      core_row_count;
  TapAxis taps_h, taps_w;
  std::int64_t group_bytes, dense_at;
  struct {
    std::uint8_t first_c, channels, taps_w, count;
  } channel_blocks[max_channel_blocks];
  struct {
    std::uint8_t channel_block, r, s;
  } core_rows[2 * max_interleaved_k_steps];

  explicit InterleavedPacking(const InterleavedLayout& layout)
      : rows(layout.rows),
        columns(layout.columns),
        spread(layout.spread),
        group_filters(layout.group_filters),
        chunks(layout.chunks),
        chunk_channels(layout.chunk_channels),
        k_steps(layout.packed_k_steps),
        k_step_bytes(layout.k_step_bytes),
        core_row_count(static_cast<int>(layout.core_rows.size())),
        taps_h(layout.taps_h),
        taps_w(layout.taps_w),
        group_bytes(static_cast<std::int64_t>(layout.group_bytes())),
        dense_at(static_cast<std::int64_t>(layout.dense_at())) {
    const auto byte = [](int value) { return static_cast<std::uint8_t>(value); };
    for (std::size_t i = 0; i < layout.channel_blocks.size(); ++i) {
      const ChannelBlock& of = layout.channel_blocks[i];
      channel_blocks[i] = {byte(of.first_c), byte(of.channels), byte(of.taps_w),
                           byte(of.channels * of.taps_h * of.taps_w)};
    }
    for (std::size_t i = 0; i < layout.core_rows.size(); ++i) {
      const CoreRow& of = layout.core_rows[i];
      core_rows[i] = {byte(layout.phase_planes[of.phase_plane].channel_block), byte(of.r),
                      byte(of.s)};
    }
  }
};

constexpr int packing_threads = 256;

/// A block packs one filter, or one copy of it, which has rows in each part of each k step.
template <class Scheme>
__global__ void __launch_bounds__(packing_threads)
    pack_interleaved(const __grid_constant__ InterleavedPacking params,
                     const __grid_constant__ FilterTaps<typename Scheme::Stored> taps,
                     char* packed) {
  __shared__ float shared_scale;
  const int copy = static_cast<int>(blockIdx.x), of_group = copy % params.group_filters,
            row = product_filter(of_group, params.group_filters);
  const int k = copy / params.spread, first_column = copy % params.spread * params.columns;
  char* const group = packed + copy / params.group_filters * params.group_bytes;
  if (threadIdx.x < 32) {
    const float scale = describe_filter<Scheme::scaled>(
        *reinterpret_cast<PackedHeader*>(group), of_group, taps, k, packed + params.dense_at);
    if (threadIdx.x == 0) shared_scale = scale;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < params.chunks * params.k_steps * 16;
       i += packing_threads) {
    const int element = i % 8, k_step = i / 16, chunk = k_step / params.k_steps,
              number = i / 8 - 2 * chunk * params.k_steps;
    const int first_c = chunk_begin(chunk, params.chunk_channels, taps.c);
    for (int place = 0; place < params.rows * params.columns; ++place) {
      const int below = place / params.columns, beside = first_column + place % params.columns;
      float value = 0;
      if (number < params.core_row_count) {
        const auto& core_row = params.core_rows[number];
        const auto& channel_block = params.channel_blocks[core_row.channel_block];
        const int of_tap = element / channel_block.channels;
        const int c = first_c + channel_block.first_c + element % channel_block.channels;
        if (element < channel_block.count && c >= chunk * params.chunk_channels)
          value = taps(k, c, params.taps_h.tap(below, core_row.r + of_tap / channel_block.taps_w),
                       params.taps_w.tap(beside, core_row.s + of_tap % channel_block.taps_w));
      }
      // N8 tiles of rows follow each other, with 16 bytes a row, and behind all of them lies the k
      // step's second core row.
      char* const at = group + packed_header_bytes + k_step * params.k_step_bytes +
                       number % 2 * (interleaved_part_bytes / 2) +
                       (row * params.rows * params.columns + place) * 16 + element * 2;
      const auto put = [&](int part, Fragment halves) {
        *reinterpret_cast<std::uint16_t*>(at + part * interleaved_part_bytes) =
            static_cast<std::uint16_t>(halves);
      };
      if constexpr (Scheme::elements.parts == 1) {
        put(0, two_halves<typename Scheme::Half>(value * shared_scale, 0));
      } else {
        const SplitHalves halves(value * shared_scale, 0);
        put(0, halves.high), put(1, halves.low);
      }
    }
  }
}

/// A plan is what is decided for a problem: the convolution as kernels see it, the layout of its
/// filters, which serves any batch, and the tiles of its batch.
struct InterleavedPlan final : KernelPlan {
  ConvProblem problem;
  InterleavedLayout layout;
  SlicePlans<InterleavedTiles> tiles;

  InterleavedPlan(const ConvProblem& seen, InterleavedLayout of_filters,
                  const SlicePlans<InterleavedTiles>& of_batch)
      : problem(seen), layout(std::move(of_filters)), tiles(of_batch) {}
};

/// Returns whether the taps of filters are neighbours.
inline Support takes_taps(const ConvProblem& problem) {
  if ((problem.r == 1 || problem.dilation.h == 1) && (problem.s == 1 || problem.dilation.w == 1))
    return {};
  return {Reason::geometry, "dilation " + std::to_string(problem.dilation.h) + "x" +
                                std::to_string(problem.dilation.w) + "; expected none"};
}

/// Returns whether the kernel takes backward data by itself: where strides are so many rows and
/// columns of outputs, and outputs of a row are neighbours in dx. What it refuses is made of
/// forward convolutions.
inline Support takes_phases(const ConvProblem& problem) {
  if (problem.has_depth()) return {Reason::geometry, "a depth; expected none"};
  if (Support taps = takes_taps(problem); !taps) return taps;
  const InterleavedConv conv(problem);
  const int rows = conv.h.up(), columns = conv.w.up();
  const std::string met = "backward data with strides of " + std::to_string(problem.stride.h) +
                          "x" + std::to_string(problem.stride.w);
  if (rows * columns == 1) return {Reason::direction, met + ": expected forward, or strides"};
  if (!std::has_single_bit(static_cast<unsigned>(rows)) || rows > max_output_rows ||
      columns > max_output_columns)
    return {Reason::geometry, met + "; expected 1, 2, 4 or 8 along rows and 1 or 2 along columns"};
  if (columns > 1 && problem.c > 1 && output_of(problem).strides[1] == 1)
    return {Reason::layout, "channels of dx are innermost; expected its columns"};
  return {};
}

/// Returns what is decided before a layout is made: whether the kernel takes the problem.
template <class Scheme>
Support takes_interleaved(const ConvProblem& problem, const DeviceInfo& device) {
  constexpr int max_stride = 4, max_taps = 64;
  if (Support usual =
          supports_dtypes_in_slices({dtype_of_stored<typename Scheme::Stored>}, problem);
      !usual)
    return usual;
  if (!products_by_warpgroups(interleaved_columns / 8, Staging::bulk, device))
    return {Reason::device_limit, "no wgmma; expected a device and a build of sm_90a"};
  const auto text = [](auto value) { return std::to_string(value); };
  const auto refuse = [](const std::string& sentence) {
    return Support{Reason::geometry, sentence};
  };
  if (problem.groups != 1) return refuse(text(problem.groups) + " groups; expected 1");
  if (problem.pool != Pool::none) return refuse("pools; expected none");
  if (Support taps = takes_taps(problem); !taps) return taps;
  // Many channels are for few filters: groups of these would each read x anew.
  const int max_channels =
      problem.k <= interleaved_rows ? max_interleaved_channels : max_chunk_channels;
  if (problem.c > max_channels)
    return refuse(text(problem.c) + " channels and " + text(problem.k) +
                  " filters; expected at most " + text(max_chunk_channels) + " channels, or " +
                  text(max_interleaved_channels) + " and " + text(interleaved_rows) + " filters");
  if (problem.stride.h > max_stride || problem.stride.w > max_stride)
    return refuse("stride " + text(problem.stride.h) + "x" + text(problem.stride.w) +
                  "; expected at most " + text(max_stride));
  if (problem.r > max_taps || problem.s > max_taps)
    return refuse("filters of " + text(problem.r) + "x" + text(problem.s) + "; expected at most " +
                  text(max_taps) + " rows and columns");
  return {};
}

/// Returns whether the kernel has room for a layout.
inline Support has_room_for(const InterleavedLayout& layout, const DeviceInfo& device) {
  const auto refuse = [](const char* what, std::size_t met, std::size_t most) {
    return Support{Reason::geometry,
                   std::to_string(met) + what + "; expected at most " + std::to_string(most)};
  };
  if (layout.k_steps > max_interleaved_k_steps)
    return refuse(" terms as they are packed", 16 * std::size_t(layout.k_steps),
                  16 * max_interleaved_k_steps);
  if (layout.phase_planes.size() > max_phase_planes)
    return refuse(" phase planes", layout.phase_planes.size(), max_phase_planes);
  if (layout.groups > device.units)
    return refuse(" groups of filters", std::size_t(layout.groups), std::size_t(device.units));
  return {};
}

template <class Scheme>
PlanResult plan_interleaved(const ConvProblem& whole, const DeviceInfo& device) {
  if (whole.direction == Direction::backward_data)
    if (Support taken = takes_phases(whole); !taken) return {taken};
  const InterleavedConv conv(whole);
  const ConvProblem& problem = conv.problem;
  if (Support taken = takes_interleaved<Scheme>(problem, device); !taken) return {taken};
  InterleavedLayout layout = layout_interleaved(conv, Scheme::elements);
  if (Support room = has_room_for(layout, device); !room) return {room};
  const SlicePlans<InterleavedTiles> tiles(problem, [&](const ConvProblem& slice) {
    return tile_interleaved(slice, device, layout, Scheme::elements);
  });
  // A gradient that is refused is made of forward convolutions, with other packed filters: which it
  // is may not depend on N.
  ConvProblem one_image = problem;
  one_image.n = 1;
  const bool takes_any_batch =
      !conv.is_gradient() ||
      tile_interleaved(one_image, device, layout, Scheme::elements).seconds > 0;
  if (tiles.full.seconds == 0 || (tiles.last && tiles.last->seconds == 0) || !takes_any_batch)
    return {{Reason::device_limit, "no tile fits a block's shared memory"}};
  const std::size_t dense_bytes = static_cast<std::size_t>(element_count(problem.w_extents())) *
                                  sizeof(typename Scheme::Stored);
  return {.estimate_seconds = interleaved_seconds(problem, Scheme::elements, layout.chunks,
                                                  tiles.full.load_seconds, tiles.seconds()),
          .filter_bytes = layout.dense_at() + dense_bytes,
          .kernel = std::make_shared<InterleavedPlan>(problem, std::move(layout), tiles)};
}

template <class Scheme>
void launch_interleaved(const ConvLaunch& whole, const KernelPlan* kernel_plan) {
  const auto& plan = static_cast<const InterleavedPlan&>(*kernel_plan);
  for_each_slice(
      slice(whole, plan.problem, 0), plan.tiles,
      [&](const ConvLaunch& call, const InterleavedTiles& tile) {
        ConvProblem dense = call.problem;
        dense.w_strides = dense_strides(call.problem.w_extents());
        const InterleavedParams<Scheme> params(call, dense, plan.layout, tile);
        OutputRows::with(plan.layout.rows, [&]<int rows>() {
          OutputColumns::with(plan.layout.columns, [&]<int columns>() {
            const auto launch = [&](auto kernel) {
              Launch(call.native_queue, blocks_for(std::int64_t{params.items} * params.groups, 1),
                     InterleavedRoles<Scheme>::threads, static_cast<std::size_t>(tile.bytes()))
                  .resident(kernel, call.device)(kernel, params);
            };
            if constexpr (columns == 1 && rows <= max_pixel_rows)
              if (params.pixel_vectors)
                return launch(interleaved<Scheme, rows, 1, StoredAlong::filters>);
            launch(interleaved<Scheme, rows, columns, StoredAlong::rows>);
          });
        });
      });
}

template <class Scheme>
void pack_interleaved_filters(const FilterPacking& packing, const KernelPlan* kernel_plan) {
  using Stored = typename Scheme::Stored;
  const auto& plan = static_cast<const InterleavedPlan&>(*kernel_plan);
  const InterleavedLayout& layout = plan.layout;
  Launch(packing.native_queue, static_cast<unsigned>(layout.groups * layout.group_filters),
         packing_threads)(pack_interleaved<Scheme>, InterleavedPacking(layout),
                          FilterTaps<Stored>(plan.problem, packing.w),
                          static_cast<char*>(packing.filters));
}

template <class Scheme>
constexpr ConvAlgorithm interleaved_entry(std::string_view name, Operand operand) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .products = Scheme::elements.parts == 2 ? 3 : 1,
                   .term_multiple = 16},
      .takes_backward_data = true,
      .plan = plan_interleaved<Scheme>,
      .pack_filters = pack_interleaved_filters<Scheme>,
      .launch = launch_interleaved<Scheme>,
  };
}

}  // namespace plumb::cuda
