// Launches planes that are held whole, for one stored type.
#pragma once

#include <stdexcept>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/depthwise/depthwise_forms.hpp"
#include "cuda_kernels/depthwise/depthwise_whole.cuh"

namespace plumb::cuda::depthwise {

inline WholeParams whole_params(const WholeCut& cut, const ConvLaunch& call, int bytes) {
  const ConvProblem& p = call.problem;
  WholeParams params{.shape = DeepShape<int>(p),
                     .x_plane = Divisor<int>(p.h * p.w),
                     .x_row = Divisor<int>(p.w),
                     .groups = Divisor<int>(ceil_div(p.q(), whole_columns(bytes)))};
  params.planes = cut.planes;
  params.all_planes = static_cast<int>(p.n * p.k);
  params.y_plane = static_cast<int>(p.p() * p.q());
  params.tile_rows = cut.rows, params.pitch = cut.pitch;
  params.filter_bytes = cut.filter_bytes, params.y_bytes = cut.y_bytes;
  const auto aligned = [&](const void* data, std::int64_t plane) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && cut.planes * plane * bytes % 16 == 0;
  };
  params.x_vectors = aligned(call.x, p.h * p.w);
  params.y_vectors = aligned(call.y, p.p() * p.q());
  return params;
}

template <class Stored>
void launch_whole(const WholeCut& cut, const ConvLaunch& call) {
  const WholeParams params = whole_params(cut, call, sizeof(Stored));
  const auto launch = [&]<std::size_t i>() {
    constexpr WholeForm form = whole_forms[i];
    if (!(form == cut.form)) return false;
    Launch(call.native_queue, blocks_for(params.all_planes, cut.planes), depthwise_threads,
           static_cast<std::size_t>(cut.shared_bytes))(
        depthwise_whole<Stored, form.taps, form.stride, form.dilation>, params,
        static_cast<const Stored*>(call.x), static_cast<const Stored*>(call.w),
        static_cast<Stored*>(call.y), Epilogue<Stored>(call));
    return true;
  };
  if (!launch_one_of<std::size(whole_forms)>(launch))
    throw std::logic_error("no kernel is compiled for the form of whole planes");
}

}  // namespace plumb::cuda::depthwise
