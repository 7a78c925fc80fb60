// Models of time know a device by its rates, which DeviceInfo has from its attributes, and by what
// follows from its architecture. Models count clocks of a multiprocessor, instructions and bytes,
// so that an estimate for another chip scales by that chip's own ceilings.
#pragma once

#include "plumb/device.hpp"

namespace plumb::cuda {

inline constexpr int memory_sector_bytes = 32;

struct Machine {
  int units = 1;                    ///< multiprocessors
  double clock_hertz = 0;           ///< of a multiprocessor
  double bytes_per_second = 0;      ///< of memory, nominal; 0 where the device does not say
  double fp32_flop_per_second = 0;  ///< FMA pipe, nominal; 0 where the device does not say
  double fp64_share = 0;            ///< fp64 rate over fp32 rate

  explicit Machine(const DeviceInfo& device);

  /// Returns the instructions that all schedulers issue in a second, counted by threads: four warps
  /// of each multiprocessor in a clock.
  double instructions_per_second() const { return 128 * clock_hertz * units; }
  /// Returns the warps that shared memory answers in a second: one of each multiprocessor in a
  /// clock.
  double shared_waves_per_second() const { return clock_hertz * units; }
  /// Returns the time to move `bytes` at `share` of the nominal rate, or 0 where that is unknown.
  double moving_seconds(double bytes, double share = 1) const;
  /// Returns the time for `flop` operations at `share` of the nominal rate, or 0 where that is
  /// unknown.
  double fp32_seconds(double flop, double share = 1) const;
};

/// Returns the FMAs in fp32 that a multiprocessor of this architecture starts in a clock.
int fp32_lanes_of(int compute_major, int compute_minor);

}  // namespace plumb::cuda
