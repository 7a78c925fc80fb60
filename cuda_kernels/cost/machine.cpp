#include "cuda_kernels/cost/machine.hpp"

#include <algorithm>

namespace plumb::cuda {
namespace {

/// Returns the share of fp64 in the fp32 rate: half on the chips for computing (8.0, 9.0, 10.0),
/// 1/64 on the others.
double fp64_share_of(const DeviceInfo& device) {
  const bool for_computing = device.compute_minor == 0 && device.compute_major <= 10;
  return for_computing ? 1.0 / 2 : 1.0 / 64;
}

/// A device that does not report a rate is taken to be limited by its other rate.
double seconds(double work, double per_second) { return per_second > 0 ? work / per_second : 0; }

}  // namespace

int fp32_lanes_of(int compute_major, int compute_minor) {
  // The CUDA C++ Programming Guide has the table under arithmetic instructions: 64 on 7.x and 8.0,
  // 128 on those since.
  return compute_major < 8 || (compute_major == 8 && compute_minor == 0) ? 64 : 128;
}

Machine::Machine(const DeviceInfo& device)
    : units(std::max(device.units, 1)),
      bytes_per_second(device.nominal_bytes_per_second),
      fp32_flop_per_second(device.nominal_fp32_flop_per_second),
      fp64_share(fp64_share_of(device)) {
  constexpr double clock_of_h200 = 1.98e9;  // stands in where a device does not report one
  const double flop_per_clock = 2.0 * fp32_lanes_of(device.compute_major, device.compute_minor);
  clock_hertz = fp32_flop_per_second > 0 && device.units > 0
                    ? fp32_flop_per_second / flop_per_clock / units
                    : clock_of_h200;
}

double Machine::moving_seconds(double bytes, double share) const {
  return seconds(bytes, bytes_per_second * share);
}

double Machine::fp32_seconds(double flop, double share) const {
  return seconds(flop, fp32_flop_per_second * share);
}

}  // namespace plumb::cuda
