// Launches the kernel, for one stored type.
#pragma once

#include <algorithm>
#include <stdexcept>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_kernel.cuh"

namespace plumb::cuda::depthwise_toeplitz {

/// What moves of a row from a column on, at most; neighbouring channels side by side. As many as
/// whole warps where a block has threads for as many rows: a warp then has words of one row in one
/// bank each.
inline std::int64_t items_of_row(const DepthwiseToeplitzCut& cut, Move move, int vector,
                                 std::int64_t first, std::int64_t columns) {
  if (move == Move::elements_of_channels) return columns * cut.channels;
  if (move != Move::channels) return ceil_div(columns, vector);
  const std::int64_t items =
      ceil_div(first % 2 + columns, std::int64_t{2}) * ceil_div(cut.channels, 8);
  const std::int64_t whole = ceil_div(items, std::int64_t{32}) * 32, threads = cut.threads();
  return threads / whole == threads / items ? whole : items;
}

inline std::int64_t vectors_of_planes(const DepthwiseToeplitzCut& cut, const Divisor<int>& plane) {
  return std::int64_t{cut.channels} * plane.value() / 8;
}

/// Where the plan's vectors are not aligned elements move by themselves.
inline void narrow(Move& move, int& vector, const void* data) {
  const int bytes = move == Move::channels || move == Move::planes ? 16 : 2 * vector;
  if (reinterpret_cast<std::uintptr_t>(data) % bytes == 0) return;
  move = move == Move::channels ? Move::elements_of_channels : Move::elements;
  vector = 1;
}

inline Params params_of(const DepthwiseToeplitzPlan& plan, const ConvLaunch& call) {
  Params params{.shape = DeepShape<int>(call.problem), .h = plan.h, .w = plan.w, .cut = plan.cut};
  DepthwiseToeplitzCut& cut = params.cut;
  narrow(cut.x_move, cut.x_vector, call.x);
  narrow(cut.y_move, cut.y_vector, call.y);
  params.channels_first = cut.x_move == Move::channels || cut.x_move == Move::elements_of_channels;
  params.blocks_c = Divisor<int>(cut.blocks_c);
  params.blocks_p = Divisor<int>(cut.blocks_p), params.blocks_q = Divisor<int>(cut.blocks_q);
  params.blocks_pq = Divisor<int>(cut.blocks_p * cut.blocks_q);
  params.stride_h = Divisor<int>(plan.h.stride), params.rows = Divisor<int>(cut.rows);
  params.channels = Divisor<int>(cut.channels);
  params.groups = Divisor<int>(ceil_div(cut.channels, 8));
  params.taps_w = Divisor<int>(plan.w.taps);
  params.taps = Divisor<int>(std::int64_t{plan.h.taps} * plan.w.taps);
  const std::int64_t first = -std::int64_t{plan.w.before} - cut.lead,
                     under = depthwise_toeplitz_half *
                             ((std::int64_t{cut.tiles} - 1) * plan.w.stride + cut.halves);
  // Of one block in a row it is known which columns there are.
  const std::int64_t columns =
      cut.blocks_q > 1
          ? std::min<std::int64_t>(under, plan.w.extent)
          : std::max<std::int64_t>(
                std::min(under, plan.w.extent - first) - std::max<std::int64_t>(0, -first), 1);
  // A pair of columns may begin before the first.
  const std::int64_t begin = cut.blocks_q > 1 ? 1 : std::max<std::int64_t>(0, -first);
  params.x_plane = Divisor<int>(std::int64_t{plan.h.extent} * plan.w.extent);
  params.x_row = Divisor<int>(plan.w.extent);
  params.y_plane = Divisor<int>(std::int64_t{plan.h.outputs} * plan.w.outputs);
  params.y_row = Divisor<int>(plan.w.outputs);
  params.x_items = Divisor<int>(cut.x_move == Move::planes
                                    ? vectors_of_planes(cut, params.x_plane)
                                    : items_of_row(cut, cut.x_move, cut.x_vector, begin, columns));
  params.y_items =
      Divisor<int>(cut.y_move == Move::planes
                       ? vectors_of_planes(cut, params.y_plane)
                       : items_of_row(cut, cut.y_move, cut.y_vector, 0,
                                      std::min<std::int64_t>(cut.columns(), plan.w.outputs)));
  if (cut.x_move == Move::planes) params.x_table = cut.channels * params.x_plane.value();
  if (cut.y_move == Move::planes) params.y_table = cut.channels * params.y_plane.value();
  params.images = static_cast<int>(call.problem.n);
  params.all_channels = static_cast<int>(call.problem.c);
  return params;
}

template <class Stored, bool neighbours, int m, int n, Fault fault = Fault::none>
void launch_tile(const DepthwiseToeplitzPlan& plan, const ConvLaunch& call) {
  Launch(call.native_queue, static_cast<unsigned>(plan.cut.blocks()),
         static_cast<unsigned>(plan.cut.threads()), plan.cut.shared_bytes)(
      depthwise_toeplitz<Stored, neighbours, m, n, fault>, params_of(plan, call),
      static_cast<const Stored*>(call.x), static_cast<const Stored*>(call.w),
      static_cast<Stored*>(call.y), Epilogue<Stored>(call));
}

template <class Stored>
void launch_depthwise_toeplitz(const DepthwiseToeplitzPlan& plan, const ConvLaunch& call) {
  const auto launch = [&]<std::size_t i>() {
    constexpr DepthwiseToeplitzTile tile = depthwise_toeplitz_tiles[i];
    if (!(tile == plan.cut.tile)) return false;
    if (plan.w.stride == 1)
      launch_tile<Stored, true, tile.m, tile.n>(plan, call);
    else
      launch_tile<Stored, false, tile.m, tile.n>(plan, call);
    return true;
  };
  const bool launched = [&]<std::size_t... i>(std::index_sequence<i...>) {
    return (launch.template operator()<i>() || ...);
  }
  (std::make_index_sequence<std::size(depthwise_toeplitz_tiles)>());
  if (!launched) throw std::logic_error("no kernel is compiled for the tile of the plan");
}

}  // namespace plumb::cuda::depthwise_toeplitz
