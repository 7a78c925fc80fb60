// Launches both kernels of depthwise backward weights, for one type of sums and one of elements.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/depthwise_weights/depthwise_weights_channels.cuh"
#include "cuda_kernels/depthwise_weights/depthwise_weights_planes.cuh"
#include "cuda_kernels/weights/weights_finish.cuh"

namespace plumb::cuda::depthwise_weights {

inline Params params_of(const DepthwiseWeightsPlan& plan) {
  const WeightsSizes& sizes = plan.weights.sizes;
  const WeightsStrides& strides = plan.weights.strides;
  const DepthwiseWeightsCut& cut = plan.cut;
  Params params{};
  params.plan = plan;
  params.tiles_s = Divisor<int>(cut.tiles_s);
  params.tiles_r = Divisor<int>(cut.tiles_r);
  params.taps_t = Divisor<int>(sizes.d.taps);
  params.blocks_k = Divisor<int>(cut.blocks_k);
  params.group_k = Divisor<int>(sizes.group_k);
  params.depth = Divisor<int>(sizes.n > 0 ? sizes.images / sizes.n : 1);  // 1 of lines
  params.strips = Divisor<int>(cut.strips);
  params.phases_w = Divisor<int>(plan.w.phases);
  params.bands = Divisor<int>(cut.bands);
  params.phases_h = Divisor<int>(plan.h.phases);
  params.block_k = Divisor<int>(cut.block_k);
  const auto bits = [](int elements) {
    int of_row = 2;
    while (of_row < 5 && (1 << of_row) < elements) ++of_row;
    return of_row;
  };
  params.lanes_x_bits = bits(cut.x_pitch), params.lanes_y_bits = bits(4 * cut.strip_steps);
  const auto narrow = [](std::int64_t step) { return static_cast<int>(step); };
  params.x_n = narrow(strides.x_n), params.x_c = narrow(strides.x_c);
  params.x_d = narrow(strides.x_d), params.x_h = narrow(strides.x_h);
  params.x_w = narrow(strides.x_w), params.y_n = narrow(strides.y_n);
  params.y_k = narrow(strides.y_k), params.y_z = narrow(strides.y_z);
  params.y_p = narrow(strides.y_p), params.y_q = narrow(strides.y_q);
  if (plan.rows_are_images) {
    params.x_h = params.x_n, params.y_p = params.y_n;
    params.x_n = params.y_n = 0;
  }
  return params;
}

template <class Real, class Stored>
void launch_depthwise_weights(const DepthwiseWeightsPlan& plan, const WeightsCall& call,
                              void* stream) {
  const WeightsSizes& sizes = plan.weights.sizes;
  const DepthwiseWeightsCut& cut = plan.cut;
  const auto* const x = static_cast<const Stored*>(call.x);
  const auto* const dy = static_cast<const Stored*>(call.dy);
  auto* const parts = static_cast<Real*>(call.parts);
  const Params params = params_of(plan);
  const std::int64_t blocks = cut.parts * cut.blocks_k * sizes.d.taps * cut.tiles_r * cut.tiles_s;
  const auto launch = [&]<std::size_t i>() {
    constexpr DepthwiseWeightsForm form = depthwise_weights_forms[i];
    if constexpr (is_compiled(form, sizeof(Real))) {
      if (!(form == cut.form)) return false;
      const auto kernel = cut.kernel == DepthwiseWeightsKernel::channels
                              ? sum_channels<Real, Stored, form.rows, form.columns, form.stride>
                              : sum_planes<Real, Stored, form.rows, form.columns, form.stride>;
      Launch(stream, blocks_for(blocks, 1), depthwise_weights_threads, cut.shared_bytes)(
          kernel, params, x, dy, parts);
      return true;
    }
    return false;
  };
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    if (!(launch.template operator()<i>() || ...))
      throw std::logic_error("no kernel is compiled for the tile of depthwise backward weights");
  }
  (std::make_index_sequence<std::size(depthwise_weights_forms)>());
  Launch(stream, blocks_for(sizes.weights(), depthwise_finish_elements), weights::finish_threads, 0)
      .early()(weights::finish_weights<Real, Stored, depthwise_finish_elements>, plan.weights, x,
               dy, static_cast<const Real*>(call.parts), static_cast<Stored*>(call.dw),
               call.accumulate);
}

}  // namespace plumb::cuda::depthwise_weights
