// What the convolution algorithms say about themselves: refusals, workspace, and a model of time.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "kokkos_kernels/spaces.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::kokkos {

/// Yes to forward convolutions of tensors stored as one of `stored`.
Support forward_of(std::initializer_list<DType> stored, const ConvProblem& problem);

inline std::size_t no_workspace(const ConvProblem&, const DeviceInfo&) { return 0; }

/// The model: the time to move the least bytes, and that of `issued_flop` at `share` of the nominal
/// rate, of which a type of twice the bytes has half.
double model_seconds(const ConvProblem& problem, const DeviceInfo& device, double issued_flop,
                     double share);

/// The execution space that a launch is for.
inline Instance instance_of(const ConvLaunch& call) {
  return {call.device.id.index, call.native_queue};
}

}  // namespace plumb::kokkos
