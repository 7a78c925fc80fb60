// Refusals with their reasons, and the model of time.
#include "kokkos_kernels/conv_support.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>

namespace plumb::kokkos {
namespace {

/// Yes to forward convolutions of tensors stored as one of `stored`.
Support forward_of(std::initializer_list<DType> stored, const ConvProblem& problem) {
  if (problem.direction != Direction::forward)
    return {Reason::direction, "a backward convolution; expected forward"};
  if (std::find(stored.begin(), stored.end(), problem.dtype) != stored.end()) return {};
  std::string expected;
  for (const DType dtype : stored)
    expected += (expected.empty() ? "" : " or ") + std::string(to_string(dtype));
  return {Reason::dtype, std::string(to_string(problem.dtype)) + " tensors; expected " + expected};
}

}  // namespace

Support takes_fp32(const ConvProblem& problem, const DeviceInfo&) {
  return forward_of({DType::f32, DType::f16, DType::bf16}, problem);
}
Support takes_fp64(const ConvProblem& problem, const DeviceInfo&) {
  return forward_of({DType::f64, DType::f32}, problem);
}

double model_seconds(const ConvProblem& problem, const DeviceInfo& device, double issued_flop,
                     double share) {
  const double rate =
      device.nominal_fp32_flop_per_second * (problem.dtype == DType::f64 ? 0.5 : 1.0);
  return issued_flop / (rate * share) + problem.bytes() / device.nominal_bytes_per_second;
}

}  // namespace plumb::kokkos
