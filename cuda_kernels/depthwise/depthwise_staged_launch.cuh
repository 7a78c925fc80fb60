// Launches marches over staged rows, for one stored type.
#pragma once

#include <stdexcept>
#include <utility>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/depthwise/depthwise_staged.cuh"

namespace plumb::cuda::depthwise {

inline StagedParams staged_params(const StagedCut& cut, const ConvProblem& p, int bytes) {
  StagedParams params{.shape = DeepShape<int>(p)};
  params.groups_c = Divisor<int>(ceil_div(p.k, cut.channels));
  params.tiles_w = Divisor<int>(ceil_div(p.q(), std::int64_t{cut.runs} * staged_columns));
  params.tiles_p = Divisor<int>(ceil_div(p.p(), std::int64_t{cut.length} * cut.row_phases));
  params.lanes = Divisor<int>(cut.channels / staged_width(bytes));
  params.runs = Divisor<int>(cut.runs);
  params.column_phases = Divisor<int>(cut.column_phases);
  params.row_phases = Divisor<int>(cut.row_phases);
  const int vectors = cut.channels * bytes / 16;
  params.vectors = Divisor<int>(vectors), params.slots = Divisor<int>(cut.columns * vectors);
  params.images = cut.images, params.all_images = static_cast<int>(p.n);
  params.channels = cut.channels, params.length = cut.length;
  params.rows = cut.rows, params.columns = cut.columns;
  params.filter_bytes = cut.filter_bytes;
  params.row_lanes = std::max(cut.threads / params.slots.value(), 1);
  return params;
}

/// Says whether the copies and the outputs are aligned; strides the plan has seen.
inline bool staged_aligned(const ConvLaunch& call, int bytes) {
  return reinterpret_cast<std::uintptr_t>(call.x) % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(call.y) %
                 static_cast<std::uintptr_t>(staged_width(bytes) * bytes) ==
             0;
}

template <class Stored>
void launch_staged(const StagedCut& cut, const ConvLaunch& call) {
  const StagedParams params = staged_params(cut, call.problem, sizeof(Stored));
  const std::int64_t blocks = std::int64_t{params.groups_c.value()} * params.tiles_w.value() *
                              params.tiles_p.value() * ceil_div(call.problem.n, cut.images);
  const auto launch = [&]<std::size_t i>() {
    constexpr StagedForm form = staged_forms[i];
    if (!(form == cut.form)) return false;
    Launch(call.native_queue, blocks_for(blocks, 1), static_cast<unsigned>(cut.threads),
           static_cast<std::size_t>(cut.shared_bytes))(
        depthwise_staged<Stored, form.taps, form.stride>, params,
        static_cast<const Stored*>(call.x), static_cast<const Stored*>(call.w),
        static_cast<Stored*>(call.y), Epilogue<Stored>(call));
    return true;
  };
  const bool launched = [&]<std::size_t... i>(std::index_sequence<i...>) {
    return (launch.template operator()<i>() || ...);
  }
  (std::make_index_sequence<std::size(staged_forms)>());
  if (!launched) throw std::logic_error("no kernel is compiled for the form of staged rows");
}

}  // namespace plumb::cuda::depthwise
