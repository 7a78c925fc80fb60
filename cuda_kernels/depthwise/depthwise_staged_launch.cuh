// Launches marches over staged rows, for one stored type.
#pragma once

#include <stdexcept>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/depthwise/depthwise_forms.hpp"
#include "cuda_kernels/depthwise/depthwise_staged.cuh"

namespace plumb::cuda::depthwise {

inline StagedParams staged_params(const StagedCut& cut, const ConvProblem& p, int bytes) {
  StagedParams params{.shape = DeepShape<int>(p)};
  params.slices = Divisor<int>(ceil_div(p.k, cut.channels));
  params.chunks = Divisor<int>(staged_chunks(cut, p));
  params.segments = Divisor<int>(staged_segments(cut, p));
  params.column_phases = Divisor<int>(cut.column_phases);
  params.row_phases = Divisor<int>(cut.row_phases);
  params.lanes = Divisor<int>(cut.channels / staged_width(bytes));
  params.vectors = Divisor<int>(cut.channels * bytes / 16);
  params.images = cut.images, params.all_images = static_cast<int>(p.n);
  params.channels = cut.channels, params.runs = cut.runs, params.length = cut.length;
  params.row_elements = staged_window(cut.form, cut.runs) * cut.channels;
  params.filter_bytes = cut.filter_bytes;
  const int together = 32 / params.vectors.value();
  params.copy_elements = together * cut.channels;
  params.copy_x_step = together * cut.column_phases * params.shape.columns.x_step;
  params.row_x_step = cut.row_phases * params.shape.rows.x_step;
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
  const std::int64_t blocks = staged_blocks_of(cut, call.problem);
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
  if (!launch_one_of<std::size(staged_forms)>(launch))
    throw std::logic_error("no kernel is compiled for the form of staged rows");
}

}  // namespace plumb::cuda::depthwise
