// Launches convolutions of few outputs, for one stored type.
#pragma once

#include <stdexcept>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/depthwise/depthwise_direct.cuh"
#include "cuda_kernels/depthwise/depthwise_forms.hpp"

namespace plumb::cuda::depthwise {

inline DirectParams direct_params(const DirectCut& cut, const ConvProblem& p, int width) {
  const std::int64_t chunks = ceil_div(p.q(), std::int64_t{direct_columns});
  return {.shape = DeepShape<int>(p),
          .slices = Divisor<int>(ceil_div(p.k, std::int64_t{cut.lanes} * width)),
          .lanes = Divisor<int>(cut.lanes),
          .chunks = Divisor<int>(chunks),
          .places = cut.places,
          .all_places = static_cast<int>(p.n * p.p() * chunks)};
}

/// Says whether vectors of channels are aligned; strides the plan has seen.
inline bool direct_aligned(const ConvLaunch& call, std::size_t element_bytes) {
  const std::size_t bytes = static_cast<std::size_t>(direct_width(element_bytes)) * element_bytes;
  return reinterpret_cast<std::uintptr_t>(call.x) % bytes == 0 &&
         reinterpret_cast<std::uintptr_t>(call.y) % bytes == 0;
}

template <class Stored>
void launch_direct(const DirectCut& cut, const ConvLaunch& call) {
  const DirectParams params = direct_params(cut, call.problem, direct_width(sizeof(Stored)));
  const auto launch = [&]<std::size_t i>() {
    constexpr StagedForm form = direct_forms[i];
    if (!(form == cut.form)) return false;
    Launch(call.native_queue, blocks_for(direct_blocks_of(cut, call.problem), 1),
           static_cast<unsigned>(direct_threads), static_cast<std::size_t>(cut.shared_bytes))(
        depthwise_direct<Stored, form.taps, form.stride>, params,
        static_cast<const Stored*>(call.x), static_cast<const Stored*>(call.w),
        static_cast<Stored*>(call.y), Epilogue<Stored>(call));
    return true;
  };
  if (!launch_one_of<std::size(direct_forms)>(launch))
    throw std::logic_error("no kernel is compiled for the form of few outputs");
}

}  // namespace plumb::cuda::depthwise
