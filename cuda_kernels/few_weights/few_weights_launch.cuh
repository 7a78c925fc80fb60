// Launches both kernels, for one arithmetic.
#pragma once

#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <utility>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/few_weights/few_weights_kernel.cuh"
#include "cuda_kernels/weights/weights_finish.cuh"

namespace plumb::cuda::few_weights {

/// How many of a block's threads copy a plane of so many vectors together, so that all planes take
/// the fewest turns.
inline int copying_threads(const FewWeightsCut& cut, std::int64_t planes, std::int64_t vectors) {
  constexpr std::int64_t of_plane = 3;  // its addresses take as long as so many vectors
  int best = cut.threads();
  std::int64_t fewest = 0;
  for (int lanes = cut.threads(); lanes >= 4; --lanes) {
    if (cut.threads() % lanes != 0) continue;
    const std::int64_t turns =
        ceil_div(planes, cut.threads() / lanes) * (of_plane + ceil_div(vectors, lanes));
    if (fewest != 0 && turns >= fewest) continue;
    fewest = turns, best = lanes;
  }
  return best;
}

/// The most elements of a row that are copied at once: 16 or 8 bytes, in 16 bits 4, or one. `row`
/// leads from row to row.
template <class Stored>
int copied_at_once(const void* data, std::int64_t extent, std::int64_t step, std::int64_t row,
                   std::initializer_list<std::int64_t> steps) {
  constexpr int bytes = static_cast<int>(sizeof(Stored));
  if ((step != 1 && extent > 1) || std::abs(row) > std::numeric_limits<int>::max()) return 1;
  for (int width = 16 / bytes; width > 1; width /= 2) {
    bool aligned = reinterpret_cast<std::uintptr_t>(data) % (width * bytes) == 0;
    aligned = aligned && extent % width == 0;
    for (const std::int64_t of : steps) aligned = aligned && of % width == 0;
    if (aligned) return width;
  }
  return 1;
}

template <class Stored>
Params params_of(const FewWeightsPlan& plan, const WeightsCall& call) {
  const WeightsSizes& sizes = plan.sizes;
  const FewWeightsCut& cut = plan.cut;
  const WeightsStrides& at = plan.strides;
  Params params{};
  params.plan = plan;
  params.z = Divisor<int>(sizes.n > 0 ? sizes.images / sizes.n : 1);
  params.row_planes = Divisor<int>(cut.row_planes);
  params.taps_d = Divisor<int>(sizes.d.taps);
  params.block_c = Divisor<int>(cut.block_c);
  params.phases = Divisor<int>(sizes.w.stride);
  params.box_n = Divisor<int>(cut.box_n);
  params.blocks_k = Divisor<int>(cut.blocks_k);
  params.blocks_c = Divisor<int>(cut.blocks_c);
  params.blocks_l = Divisor<int>(cut.blocks_l);
  params.groups = Divisor<int>(sizes.groups);
  if (sizes.w.stride == 1 && sizes.w.unit == 1)
    params.x_vector = copied_at_once<Stored>(
        call.x, sizes.w.extent, at.x_w, sizes.h.unit * sizes.h.stride * at.x_h,
        {at.x_n, at.x_c, at.x_d, at.x_h, cut.pitch, sizes.w.before + cut.lead});
  params.dy_vector = copied_at_once<Stored>(call.dy, sizes.w.outputs, at.y_q, at.y_p,
                                            {at.y_n, at.y_k, at.y_z, at.y_p, cut.dy_pitch});
  const std::int64_t width = std::int64_t{cut.lead} + cut.box_q + sizes.max_shift;
  const std::int64_t of_row =
      params.x_vector > 1 ? ceil_div(width, params.x_vector) : width * sizes.w.stride;
  const std::int64_t of_dy_row = ceil_div(cut.box_q, params.dy_vector);
  params.x_vectors = Divisor<int>(of_row), params.dy_vectors = Divisor<int>(of_dy_row);
  params.x_lanes = Divisor<int>(
      copying_threads(cut, std::int64_t{cut.box_n} * cut.block_c * sizes.d.taps * cut.row_planes,
                      of_row * cut.x_rows));
  params.dy_lanes = Divisor<int>(
      copying_threads(cut, std::int64_t{cut.block_k} * cut.box_n, of_dy_row * cut.dy_rows));
  return params;
}

/// Adds the parts, as the kernels of weights/ do.
template <class Stored>
void launch_finish(const FewWeightsPlan& plan, const WeightsCall& call, void* stream) {
  WeightsPlan adding{plan.sizes, {}, plan.strides};
  adding.cut.parts = plan.cut.parts;
  Launch(stream, blocks_for(plan.sizes.weights(), finish_elements), weights::finish_threads, 0)(
      weights::finish_weights<float, Stored>, adding, static_cast<const Stored*>(call.x),
      static_cast<const Stored*>(call.dy), static_cast<const float*>(call.parts),
      static_cast<Stored*>(call.dw), call.accumulate);
}

template <class Arithmetic, int m, int n, FewWeightsFault fault = FewWeightsFault::none>
void launch_tile(const FewWeightsPlan& plan, const WeightsCall& call, void* stream) {
  using Stored = typename Arithmetic::Stored;
  const FewWeightsCut& cut = plan.cut;
  Launch(stream, blocks_for(cut.blocks_of_part(plan.sizes.groups) * cut.parts, 1),
         static_cast<unsigned>(cut.threads()),
         cut.shared_bytes)(sum_few_weights<Arithmetic, m, n, fault>, params_of<Stored>(plan, call),
                           static_cast<const Stored*>(call.x), static_cast<const Stored*>(call.dy),
                           static_cast<float*>(call.parts));
  launch_finish<Stored>(plan, call, stream);
}

template <class Arithmetic>
void launch_few_weights(const FewWeightsPlan& plan, const WeightsCall& call, void* stream) {
  const auto launch = [&]<std::size_t i>() {
    constexpr FewWeightsTile tile = few_weights_tiles[i];
    if (!(tile == plan.cut.tile)) return false;
    launch_tile<Arithmetic, tile.m, tile.n>(plan, call, stream);
    return true;
  };
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    if (!(launch.template operator()<i>() || ...))
      throw std::logic_error("no kernel is compiled for the tile of backward weights");
  }
  (std::make_index_sequence<std::size(few_weights_tiles)>());
}

}  // namespace plumb::cuda::few_weights
