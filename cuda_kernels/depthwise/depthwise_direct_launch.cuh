// Launches convolutions of few outputs, for one stored type.
#pragma once

#include <stdexcept>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/depthwise/depthwise_direct.cuh"
#include "cuda_kernels/depthwise/depthwise_direct_rows.cuh"
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

inline DirectRowsParams direct_rows_params(const DirectCut& cut, const ConvLaunch& call,
                                           std::size_t element_bytes) {
  const ConvProblem& p = call.problem;
  const std::int64_t columns = direct_row_columns(element_bytes), chunks = ceil_div(p.q(), columns);
  const std::size_t bytes = static_cast<std::size_t>(columns) * element_bytes;
  return {.shape = DeepShape<int>(p),
          .chunks = Divisor<int>(chunks),
          .all_chunks = static_cast<int>(p.n * p.k * p.p() * chunks),
          .whole = cut.whole && reinterpret_cast<std::uintptr_t>(call.y) % bytes == 0};
}

/// Says whether vectors of channels are aligned; strides the plan has seen. Columns are read one by
/// one.
inline bool direct_aligned(const DirectCut& cut, const ConvLaunch& call,
                           std::size_t element_bytes) {
  if (cut.rows) return true;
  const std::size_t bytes = static_cast<std::size_t>(direct_width(element_bytes)) * element_bytes;
  return reinterpret_cast<std::uintptr_t>(call.x) % bytes == 0 &&
         reinterpret_cast<std::uintptr_t>(call.y) % bytes == 0;
}

template <class Stored>
void launch_direct(const DirectCut& cut, const ConvLaunch& call) {
  const auto start = [&](auto kernel, const auto& params) {
    Launch(call.native_queue, blocks_for(direct_blocks_of(cut, call.problem), 1),
           static_cast<unsigned>(direct_threads), static_cast<std::size_t>(cut.shared_bytes))(
        kernel, params, static_cast<const Stored*>(call.x), static_cast<const Stored*>(call.w),
        static_cast<Stored*>(call.y), Epilogue<Stored>(call));
  };
  const auto launch = [&]<std::size_t i>() {
    constexpr StagedForm form = direct_forms[i];
    if (!(form == cut.form)) return false;
    if (cut.rows)
      start(depthwise_direct_rows<Stored, form.taps, form.stride>,
            direct_rows_params(cut, call, sizeof(Stored)));
    else
      start(depthwise_direct<Stored, form.taps, form.stride>,
            direct_params(cut, call.problem, direct_width(sizeof(Stored))));
    return true;
  };
  if (!launch_one_of<std::size(direct_forms)>(launch))
    throw std::logic_error("no kernel is compiled for the form of few outputs");
}

}  // namespace plumb::cuda::depthwise
