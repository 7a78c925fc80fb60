// This is the kernel of windows, with its launch and the entry of an algorithm made of it.
//
// Blocks are persistent and take tile after tile. Where the next tile's input can be staged, it is
// on its way to shared memory while a tile is multiplied.
#pragma once

#include <array>
#include <span>

#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/conv/packed_header.hpp"
#include "cuda_kernels/cost/windows.hpp"
#include "cuda_kernels/few_channels/window_filters.cuh"
#include "cuda_kernels/few_channels/window_pack.cuh"
#include "cuda_kernels/few_channels/window_rows_store.cuh"
#include "cuda_kernels/few_channels/window_store.cuh"
#include "cuda_kernels/few_channels/window_stream.cuh"
#include "cuda_kernels/few_channels/window_sums.cuh"
#include "cuda_kernels/few_channels/window_tile.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda {

/// Has sums of the tile of that `turn` summed again where they are too small for operands that were
/// met there. What was met is read after the products, because it would cost a register beside
/// them.
template <class Scheme, class Sum, int rows, int n8_tiles>
__device__ void look_at_small(Sum (&sums)[rows][n8_tiles], const WindowKernelParams& params,
                              const WindowControl& control, int turn) {
  if constexpr (Scheme::scaled) {
    if (((control.flags[turn] | control.filter_flags) & met_small) == 0) return;
    const ConvShape<int>& conv = params.conv;
    const int terms = params.taps * conv.group_c * conv.r.value() * conv.s.value();
    spoil_small(sums, least_sum_of_small<Scheme::products> * static_cast<float>(terms));
  }
}

/// Makes the outputs of a tile from its input and filters in shared memory.
template <class Scheme, class Terms, int row_pairs, int n8_tiles, bool gathers, class Stored>
__device__ void multiply_tile(const WindowOutput<Stored>& output, const WindowItem& item,
                              int first_k, const char* x_tile, const char* w_tile,
                              const WindowControl& control, int turn, float scale) {
  const WindowKernelParams& params = output.params;
  constexpr int strip_rows = 2 * row_pairs;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int tap = lane % 4 * 2, tap_row = tap >> params.segment_bits;
  const int lane_at = tap_row * (params.pitch - (1 << params.segment_bits)) + tap;
  const int numbers = item.images * item.strips * params.windows.value();
  const int all_warps = static_cast<int>(blockDim.x) / 32;
  // Warps that multiply together must stay in the loop together.
  constexpr int together = Terms::warpgroups ? 32 : 8;
  for (int first = warp * 8; first - warp * 8 % together < numbers; first += all_warps * 8) {
    const auto [image, strip, window] = TileWindow(params, first + lane / 4, numbers);
    const char* x = x_tile + (image * params.image_step + strip * params.strip_step +
                              window * window_step + lane_at) *
                                 Scheme::element_bytes;
    typename Scheme::Sum sums[row_pairs][n8_tiles];
    sum_channels<Scheme, Terms>(sums, params, x, w_tile);
    look_at_small<Scheme>(sums, params, control, turn);
    if (first + lane / 4 < numbers)
      store_strip<Scheme::scaled, gathers>(output, item, sums, control, scale, first_k, image,
                                           item.p + strip * strip_rows,
                                           item.q + window * params.shifts);
  }
}

/// Makes the outputs of tile `number` with filters that stream.
template <class Scheme, class Terms, int rows, int n8_tiles, class Stored>
__device__ void multiply_streamed(const WindowOutput<Stored>& output, int number,
                                  const char* x_tile, FilterStream<Terms>& stream,
                                  const WindowControl& control, int turn) {
  const WindowKernelParams& params = output.params;
  constexpr int windows = streamed_windows;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int all_warps = static_cast<int>(blockDim.x) / 32;
  const auto* const table = reinterpret_cast<const int*>(dynamic_shared() + params.table_at);
  // The item is made anew each time, because it would cost registers beside the sums.
  const auto item_of = [&] {
    asm volatile("" : "+r"(number));
    return WindowItem(params, number, rows);
  };
  const auto numbers_of = [&](const WindowItem& item) {
    return item.images * item.strips * params.windows.value();
  };
  const int all_numbers = numbers_of(item_of());
  // All warps of the block share the stream, and must stay in the loop together.
  for (int first = warp * windows; first - warp * windows < all_numbers;
       first += all_warps * windows) {
    const auto begin = [&](int of_lane) {
      const auto [image, strip, window] = TileWindow(params, of_lane, all_numbers);
      return (image * params.image_step + strip * params.strip_step + window * window_step) *
             Scheme::element_bytes;
    };
    const int window = begin(first + lane / 4 * 2), second = begin(first + lane / 4 * 2 + 1);
    typename Scheme::Sum sums[rows][n8_tiles];
    sum_streamed<Scheme, Terms>(sums, params, x_tile + window, second - window, table, stream);
    look_at_small<Scheme>(sums, params, control, turn);
    const WindowItem item = item_of();
    store_rows<Scheme::scaled>(output, item, sums, control, power_of_two(-control.exponent),
                               control.first_k, first, numbers_of(item));
  }
}

/// Begins a group of filters, which are packed at `packed`: loads what products and outputs need
/// of them. The whole block calls it after a barrier; it does not end with one.
template <class Scheme, class Terms, class Stored>
__device__ void begin_filters(const WindowKernelParams& params, const char* packed, int first_k,
                              const Stored* bias, WindowControl& control, char* w_tile,
                              FilterStream<Terms>& stream) {
  if constexpr (Terms::streams) {
    stream.begin();
    write_pair_table(params, Scheme::element_bytes,
                     reinterpret_cast<int*>(dynamic_shared() + params.table_at));
  } else {
    copy_filters(packed + packed_header_bytes,
                 static_cast<int>(params.packed_group_bytes) - packed_header_bytes, w_tile);
  }
  take_header(*reinterpret_cast<const PackedHeader*>(packed), params.group_filters, first_k, 1,
              params.conv.k.value(), bias, control);
  if constexpr (!Terms::streams) {
    wait_for_copies();
    if constexpr (Terms::warpgroups) order_shared_writes();
  }
}

template <class Scheme, class Terms, int row_pairs, int n8_tiles, class Stored>
__global__ void __launch_bounds__(window_unit<Scheme, Terms, row_pairs, n8_tiles>.max_threads(),
                                  window_unit<Scheme, Terms, row_pairs, n8_tiles>.warps() * 32 /
                                      window_unit<Scheme, Terms, row_pairs, n8_tiles>.max_threads())
    multiply_windows(const __grid_constant__ WindowKernelParams params, const Stored* x,
                     const Stored* w, Stored* y,
                     const __grid_constant__ Epilogue<Stored> epilogue) {
  if (!Terms::launched) return;
  char* const shared = dynamic_shared();
  WindowControl& control = *reinterpret_cast<WindowControl*>(shared);
  char* const w_tile = shared + window_control_bytes;
  const WindowOutput<Stored> output{params, y - params.y_before,
                                    reinterpret_cast<Stored*>(shared + params.y_at), epilogue};
  constexpr int strip_rows = unit_strip_rows<Scheme, Terms, row_pairs, n8_tiles>;
  TileInput<Scheme, Terms, Stored> input(params, control, x);
  // Blocks side by side take the same tiles for different filters.
  const int grid = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  const int teams = min(params.filter_groups, grid), team = block % teams;
  if (threadIdx.x == 0) control.members = (grid - team - 1) / teams + 1;

  FilterStream<Terms> stream(
      params, control, n8_tiles * 32 * static_cast<int>(sizeof(typename Scheme::KStep)), w_tile);
  if (threadIdx.x == 0) {
    if constexpr (Terms::streams)
      stream.init(params.packed + team * params.packed_group_bytes + packed_header_bytes);
    control.staged.init();
    control.flags[0] = control.flags[1] = 0;
    control.largest[0] = control.largest[1] = 0;
  }
  int round = 0;
  for (int group = team; group < params.filter_groups; group += teams) {
    const int first_k = group * params.group_filters;
    if (threadIdx.x == 0) {
      control.first_k = first_k;
      clear_header(control);
    }
    __syncthreads();
    int number = block / teams;
    if (number < params.items) input.begin_ahead(WindowItem(params, number, strip_rows), round % 2);
    begin_filters<Scheme, Terms>(params, params.packed + group * params.packed_group_bytes, first_k,
                                 epilogue.bias, control, w_tile, stream);
    for (; number < params.items; number += control.members, ++round) {
      const WindowItem item(params, number, strip_rows);
      const int turn = round % 2;
      const int exponent = input.take(item, turn, round == 0);
      if (const int after = number + control.members; after < params.items)
        input.begin_ahead(WindowItem(params, after, strip_rows), 1 - turn);
      int flags = control.flags[turn] | control.filter_flags;
      if (Scheme::scaled && !scales_fit(control, exponent)) flags |= met_range;
      if (threadIdx.x == 0) control.flags[1 - turn] = control.largest[1 - turn] = 0;
      const auto multiply = [&](auto gathers) {
        if constexpr (!Terms::streams)
          multiply_tile<Scheme, Terms, row_pairs, n8_tiles, decltype(gathers)::value>(
              output, item, control.first_k, input.tile(turn), w_tile, control, turn,
              power_of_two(-exponent));
        else if constexpr (!decltype(gathers)::value)
          multiply_streamed<Scheme, Terms, row_pairs, n8_tiles>(output, number, input.tile(turn),
                                                                stream, control, turn);
      };
      const bool again = (flags & met_range) != 0;  // every output is summed again
      if (!again && output.gathers()) multiply(std::true_type{});
      if (!again && !output.gathers()) multiply(std::false_type{});
      if (flags != 0) {
        __syncthreads();
        redo_tile(output, item, strip_rows, control.first_k, again, x, w);
      }
      // Outputs of filters that stream are never gathered (window_planner.cpp).
      if constexpr (!Terms::streams)
        if (output.gathers() && params.bulk_stores) order_shared_writes();
      __syncthreads();
      if constexpr (!Terms::streams)
        if (output.gathers()) write_gathered(output, item, strip_rows, control.first_k);
    }
    if constexpr (Terms::streams) break;  // a grid has a block for each group, so a block meets one
  }
  if constexpr (Terms::streams) stream.end();
  if (bulk_copies && params.bulk_stores) wait_for_store_reads();
}

/// What a scheme of arithmetic costs, for the planner.
template <class Scheme>
constexpr WindowCosts window_costs{
    .element_bytes = Scheme::element_bytes,
    .k_step_bytes = sizeof(typename Scheme::KStep),
    .mmas_of_k_step = Scheme::mmas_of_k_step,
    .scaled = Scheme::scaled,
    .products = Scheme::products,
};

/// Launches the kernel on a slice with tiles planned for it. `packed` says where the packed filters
/// lie, and behind them their dense copy.
template <class Scheme, class Terms, int fragments, int n8_tiles, class Stored>
void launch_windows(const ConvLaunch& call, const WindowTiles& tile, const PackedWindows& packed) {
  const auto* const x = static_cast<const Stored*>(call.x);
  auto* const y = static_cast<Stored*>(call.y);
  const auto* const filters = static_cast<const char*>(call.filters);
  WindowKernelParams params(call.problem, tile, window_unit<Scheme, Terms, fragments, n8_tiles>, x,
                            y);
  params.packed = filters;
  params.packed_group_bytes = static_cast<std::int64_t>(packed.group_bytes);
  const auto kernel = multiply_windows<Scheme, Terms, fragments, n8_tiles, Stored>;
  Launch(call.native_queue, blocks_for(std::int64_t{params.items} * params.filter_groups, 1),
         static_cast<unsigned>(tile.threads), tile.bytes())
      .resident(kernel, call.device)(kernel, params, x,
                                     reinterpret_cast<const Stored*>(filters + packed.dense_at), y,
                                     Epilogue<Stored>(call));
}

/// A plan is what is decided for a problem: the kernel, the layout of its filters, which serves any
/// batch, and the tiles of its batch.
struct WindowPlan final : KernelPlan {
  WindowKernelConfig unit;
  PackedWindows packed;
  SlicePlans<WindowTiles> tiles;

  WindowPlan(const WindowKernelConfig& chosen, const PackedWindows& layout,
             const SlicePlans<WindowTiles>& of_batch)
      : unit(chosen), packed(layout), tiles(of_batch) {}
};

/// Kernels are compiled for these units: of `row_pairs` pairs of rows, with each of these numbers
/// of n8 tiles of filters.
template <class Scheme, int row_pairs, int... n8_tiles>
struct WindowKernelConfigs {
  static constexpr int products = Scheme::products;
  static double expected(const ConvProblem& problem, double predicted) {
    return few_channels_seconds(problem, costs, row_pairs >= 4, predicted);
  }
  static constexpr int term_multiple = Scheme::terms;
  using Seven = FixedTerms<7, 1>;  // 7 rows, 4 to 7 columns
  using SevenOfWarpgroups = FixedTerms<7, 1, true>;
  using Three = FixedTerms<2, 2>;  // 3 or 4 rows, 2 or 3 columns

  /// Returns what these units ask for besides windows_fit(), which is nothing.
  static Support fit(const ConvProblem&, const DeviceInfo&, const PackedWindows&) { return {}; }

  /// Returns the unit of the least predicted time. Filters are packed for it and serve any batch,
  /// so it is chosen for a large one, whatever the problem's own.
  static WindowKernelConfig choose(ConvProblem problem, const DeviceInfo& device, Staging staging) {
    problem.n = large_batch;
    problem.w_strides = {};  // they do not matter once the filters are packed
    // Entries that do without the copy engine do without wgmma too, which came with it. One channel
    // is too little to multiply while something else is done.
    const bool may_use_warpgroups = product_channels(problem) > 1 && Seven::fit(problem);
    static_assert(sizeof...(n8_tiles) <= max_units);
    std::array<WindowKernelConfig, sizeof...(n8_tiles)> units;
    std::size_t count = 0;
    // A unit for more filters than are needed is considered only where nothing fits better.
    const auto needed = ceil_div(problem.k, WindowTerms(problem).eight_filters());
    const auto consider = [&](WindowKernelConfig unit, WindowKernelConfig of_warpgroups) {
      if (count > 0 && units[count - 1].filter_n8_tiles >= needed) return;
      const bool warpgroups =
          may_use_warpgroups && products_by_warpgroups(unit.filter_n8_tiles, staging, device);
      units[count++] = warpgroups ? of_warpgroups : unit;
    };
    (consider({row_pairs, n8_tiles}, window_unit<Scheme, SevenOfWarpgroups, row_pairs, n8_tiles>),
     ...);
    return choose_unit(problem, device, std::span(units).first(count), window_costs<Scheme>,
                       staging);
  }
  static WindowTiles tiles(ConvProblem problem, const DeviceInfo& device,
                           const WindowKernelConfig& unit, Staging staging) {
    problem.w_strides = {};  // they do not matter, as in choose()
    return plan_windows(problem, device, unit, window_costs<Scheme>, staging);
  }
  static constexpr WindowCosts costs = window_costs<Scheme>;

  /// Packs the filters of tensors stored as one of `Stored`.
  template <class... Stored>
  static void pack(const FilterPacking& packing, const WindowPlan& plan) {
    pack_windows<Scheme, SegmentKSteps, Stored...>(packing, plan.packed);
  }
  template <class... Stored>
  static void launch(const ConvLaunch& whole, const WindowPlan& plan) {
    const WindowKernelConfig& unit = plan.unit;
    for_each_slice(whole, plan.tiles, [&](const ConvLaunch& call, const WindowTiles& tile) {
      with_stored<Stored...>(call.problem.dtype, [&]<class S>(S) {
        ((unit.filter_n8_tiles == n8_tiles ? launch_unit<n8_tiles, S>(call, plan, tile) : void()),
         ...);
      });
    });
  }

 private:
  template <int count, class Stored>
  static void launch_unit(const ConvLaunch& call, const WindowPlan& plan, const WindowTiles& tile) {
    const auto run = [&]<class Terms>(Terms) {
      launch_windows<Scheme, Terms, row_pairs, count, Stored>(call, tile, plan.packed);
    };
    if constexpr (count > 1)
      if (plan.unit.warpgroups) return run(SevenOfWarpgroups{});
    if (Seven::fit(call.problem)) return run(Seven{});
    if constexpr (row_pairs == 2)
      if (Three::fit(call.problem)) return run(Three{});
    run(FixedTerms<0, 0>{});
  }
};

template <class Units, Staging staging, class... Stored>
PlanResult plan_entry(const ConvProblem& problem, const DeviceInfo& device) {
  if (Support usual = supports_dtypes_in_slices({dtype_of_stored<Stored>...}, problem); !usual)
    return {usual};
  if (Support geometry = windows_fit(problem); !geometry) return {geometry};
  const WindowKernelConfig unit = Units::choose(problem, device, staging);
  const PackedWindows packed(problem, unit, Units::costs);
  if (Support units = Units::fit(problem, device, packed); !units) return {units};
  const SlicePlans<WindowTiles> tiles(problem, [&](const ConvProblem& slice) {
    return Units::tiles(slice, device, unit, staging);
  });
  const std::size_t bytes = std::max(tiles.full.bytes(), tiles.last ? tiles.last->bytes() : 0);
  if (Support fits = fits_shared_memory(static_cast<double>(bytes), device); !fits) return {fits};
  return {.estimate_seconds = Units::expected(problem, tiles.seconds()),
          .filter_bytes = packed.bytes,
          .kernel = std::make_shared<WindowPlan>(unit, packed, tiles)};
}

/// Makes the entry of an algorithm for tensors stored as one of `Stored`. Entries that do without
/// the copy engine exist to be measured beside the others, which do without it too where the device
/// has none.
template <class Units, Staging staging, class... Stored>
constexpr ConvAlgorithm window_entry(std::string_view name, Operand operand) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .products = Units::products,
                   .term_multiple = Units::term_multiple},
      .forced_only = staging != Staging::bulk,
      .fuses_pool = true,
      .takes_depth = true,
      .plan = plan_entry<Units, staging, Stored...>,
      .pack_filters =
          [](const FilterPacking& packing, const KernelPlan* plan) {
            Units::template pack<Stored...>(packing, static_cast<const WindowPlan&>(*plan));
          },
      .launch =
          [](const ConvLaunch& call, const KernelPlan* plan) {
            Units::template launch<Stored...>(call, static_cast<const WindowPlan&>(*plan));
          },
  };
}

}  // namespace plumb::cuda
