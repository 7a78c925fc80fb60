// Refusals with their reasons, and the model of time.
#include "kokkos_kernels/conv_support.hpp"

#include <algorithm>
#include <string>

namespace plumb::kokkos {

Support forward_of(std::initializer_list<DType> stored, const ConvProblem& problem) {
  if (problem.direction != Direction::forward)
    return {Reason::direction, "a backward convolution; expected forward"};
  if (std::find(stored.begin(), stored.end(), problem.dtype) != stored.end()) return {};
  std::string expected;
  for (const DType dtype : stored)
    expected += (expected.empty() ? "" : " or ") + std::string(to_string(dtype));
  return {Reason::dtype, std::string(to_string(problem.dtype)) + " tensors; expected " + expected};
}

double model_seconds(const ConvProblem& problem, const DeviceInfo& device, double issued_flop,
                     double share) {
  const double rate =
      device.nominal_fp32_flop_per_second * (problem.dtype == DType::f64 ? 0.5 : 1.0);
  return issued_flop / (rate * share) + problem.bytes() / device.nominal_bytes_per_second;
}

}  // namespace plumb::kokkos
