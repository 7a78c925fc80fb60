// Launches both kernels of backward weights, for one type of sums and one of elements.
#pragma once

#include <stdexcept>
#include <utility>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/weights/weights_finish.cuh"
#include "cuda_kernels/weights/weights_kernel.cuh"

namespace plumb::cuda::weights {

/// The logarithm of how many lanes copy a row of so many elements.
inline int lane_bits(std::int64_t elements) {
  int bits = 2;
  while (bits < 5 && (1 << bits) < elements) ++bits;
  return bits;
}

/// The most elements of dy that are copied at once, up to 16 bytes of sums.
template <class Real, class Stored>
int gradient_vector(const WeightsPlan& plan, const void* dy) {
  const WeightsStrides& s = plan.strides;
  if (s.y_q != 1) return 1;
  for (int width = 16 / static_cast<int>(sizeof(Real)); width > 1; width /= 2) {
    bool aligned = reinterpret_cast<std::uintptr_t>(dy) % (width * sizeof(Stored)) == 0 &&
                   plan.sizes.w.outputs % width == 0;
    for (const std::int64_t step : {s.y_n, s.y_k, s.y_z, s.y_p})
      aligned = aligned && step % width == 0;
    if (aligned) return width;
  }
  return 1;
}

template <class Real, class Stored>
WeightsParams params_of(const WeightsPlan& plan, const WeightsCall& call) {
  const WeightsSizes& sizes = plan.sizes;
  const WeightsCut& cut = plan.cut;
  WeightsParams params{};
  params.plan = plan;
  params.z = Divisor<int>(sizes.n > 0 ? sizes.images / sizes.n : 1);
  params.rows = Divisor<int>(cut.rows);
  params.taps_d = Divisor<int>(sizes.d.taps);
  params.taps_h = Divisor<int>(sizes.h.taps);
  params.block_c = Divisor<int>(cut.block_c);
  params.box_p = Divisor<int>(cut.box_p);
  params.box_n = Divisor<int>(cut.box_n);
  params.phases = Divisor<int>(sizes.w.stride);
  params.channel_lines = Divisor<int>(cut.channel_lines);
  params.pieces = Divisor<int>(cut.pieces);
  params.blocks_k = Divisor<int>(cut.blocks_k);
  params.blocks_c = Divisor<int>(cut.blocks_c);
  params.blocks_l = Divisor<int>(cut.blocks_l);
  params.groups = Divisor<int>(sizes.groups);
  params.chunks = Divisor<int>(cut.box_q / weights_step);
  params.vector = gradient_vector<Real, Stored>(plan, call.dy);
  const std::int64_t q = sizes.w.outputs;
  params.joined =
      cut.box_q == q && (sizes.h.outputs == 1 || plan.strides.y_p == q * plan.strides.y_q);
  const int row = params.joined ? cut.box_p * cut.box_q : cut.box_q;
  params.lanes_x_bits = lane_bits(std::int64_t{cut.plane_pitch} * sizes.w.stride);
  params.lanes_y_bits = lane_bits(row / params.vector);
  return params;
}

template <class Real, class Stored>
void launch_weights(const WeightsPlan& plan, const WeightsCall& call, void* stream) {
  const WeightsSizes& sizes = plan.sizes;
  const WeightsCut& cut = plan.cut;
  const auto* const x = static_cast<const Stored*>(call.x);
  const auto* const dy = static_cast<const Stored*>(call.dy);
  auto* const parts = static_cast<Real*>(call.parts);
  const WeightsParams params = params_of<Real, Stored>(plan, call);
  const auto launch = [&]<std::size_t i>() {
    constexpr WeightsTile tile = weights_tiles[i];
    if constexpr (is_compiled(tile, sizeof(Real))) {
      if (!(tile == cut.tile)) return false;
      Launch(stream, blocks_for(cut.blocks_of_part(sizes.groups) * cut.parts, 1),
             static_cast<unsigned>(cut.threads), cut.shared_bytes)(
          sum_weights<Real, Stored, tile.filters, tile.lines, tile.taps>, params, x, dy, parts);
      return true;
    }
    return false;
  };
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    if (!(launch.template operator()<i>() || ...))
      throw std::logic_error("no kernel is compiled for the tile of backward weights");
  }
  (std::make_index_sequence<std::size(weights_tiles)>());
  Launch(stream, blocks_for(sizes.weights(), finish_elements), finish_threads, 0)(
      finish_weights<Real, Stored>, plan, x, dy, static_cast<const Real*>(parts),
      static_cast<Stored*>(call.dw), call.accumulate);
}

}  // namespace plumb::cuda::weights
