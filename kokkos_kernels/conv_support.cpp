// Refusals with their reasons, and the model of time.
#include "kokkos_kernels/conv_support.hpp"

#include "kokkos_kernels/row_segments.hpp"
#include "plumb/support.hpp"

namespace plumb::kokkos {

Support takes_fp32(const ConvProblem& problem, const DeviceInfo&) {
  return supports_dtypes({DType::f32, DType::f16, DType::bf16}, problem);
}
Support takes_fp64(const ConvProblem& problem, const DeviceInfo&) {
  return supports_dtypes({DType::f64, DType::f32}, problem);
}

double model_seconds(const ConvProblem& problem, const DeviceInfo& device, double issued_flop,
                     double share) {
  const double rate =
      device.nominal_fp32_flop_per_second * (problem.dtype == DType::f64 ? 0.5 : 1.0);
  return issued_flop / (rate * share) + problem.bytes() / device.nominal_bytes_per_second;
}

double plain_share(const DeviceInfo& device) {
  if (device.compute_major > 0) return 1;
  return flop_per_cycle_of("baseline") / flop_per_cycle_of(device.instruction_set);
}

}  // namespace plumb::kokkos
