// What the models of time know of a device: its rates, which DeviceInfo has from its attributes,
// and what follows from its architecture. Models count clocks of a multiprocessor, instructions and
// bytes, so that an estimate for another chip scales by that chip's own ceilings.
#pragma once

#include "plumb/device.hpp"

namespace plumb::cuda {

inline constexpr int memory_sector_bytes = 32;

struct Machine {
  int units = 1;                    ///< multiprocessors
  double clock_hertz = 0;           ///< of a multiprocessor
  double bytes_per_second = 0;      ///< of memory, nominal; 0 where the device does not say
  double fp32_flop_per_second = 0;  ///< FMA pipe, nominal; 0 where the device does not say
  double fp64_share = 0;            ///< of that, in fp64

  explicit Machine(const DeviceInfo& device);

  /// Instructions that all schedulers issue, counted by threads: four warps of each multiprocessor
  /// in a clock.
  double instructions_per_second() const { return 128 * clock_hertz * units; }
  /// What shared memory answers: a warp of each multiprocessor in a clock.
  double shared_waves_per_second() const { return clock_hertz * units; }
  /// The time to move `bytes` at `share` of the nominal rate; 0 where that is unknown.
  double moving_seconds(double bytes, double share = 1) const;
  /// The time for so many operations at `share` of the nominal rate; 0 where that is unknown.
  double fp32_seconds(double flop, double share = 1) const;
};

/// FMAs in fp32 that a multiprocessor of this architecture starts in a clock.
int fp32_lanes_of(int compute_major, int compute_minor);

}  // namespace plumb::cuda
