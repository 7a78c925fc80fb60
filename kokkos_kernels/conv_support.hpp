// What the convolution algorithms say about themselves: refusals, workspace, and a model of time.
#pragma once

#include <cstddef>
#include <string_view>

#include "kokkos_kernels/spaces.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::kokkos {

/// What the kernels of each arithmetic take.
Support takes_fp32(const ConvProblem& problem, const DeviceInfo& device);
Support takes_fp64(const ConvProblem& problem, const DeviceInfo& device);

inline constexpr Numerics fp32_sums{.operand = Operand::fp32, .accumulator = Accumulator::fp32_fma};
inline constexpr Numerics fp64_sums{.operand = Operand::fp64, .accumulator = Accumulator::fp64_fma};

/// What all entries have in common: they take every problem as it is. None can be captured: see
/// docs/kokkos.md.
constexpr ConvAlgorithm common_entry(std::string_view name, const Numerics& numerics) {
  return {.name = name,
          .numerics = numerics,
          .capturable = false,
          .takes_depth = true,
          .takes_boundaries = true,
          .accumulates = true};
}

/// An algorithm without workspace.
template <auto supports, auto estimate, auto launch>
constexpr ConvAlgorithm entry(std::string_view name, const Numerics& numerics) {
  ConvAlgorithm algorithm = common_entry(name, numerics);
  algorithm.plan = plan_of_parts<supports, estimate>;
  algorithm.launch = without_plan<launch>;
  return algorithm;
}

/// The model: the time to move the least bytes, and that of `issued_flop` at `share` of the nominal
/// rate, of which a type of twice the bytes has half.
double model_seconds(const ConvProblem& problem, const DeviceInfo& device, double issued_flop,
                     double share);

/// How much of the nominal rate is there for kernels that leave vectors to the compiler: on a host
/// it finds few, so that they are as fast as for any x86-64.
double plain_share(const DeviceInfo& device);

/// The execution space that a launch is for.
inline Instance instance_of(const ConvLaunch& call) {
  return {call.device.id.index, call.native_queue};
}

}  // namespace plumb::kokkos
