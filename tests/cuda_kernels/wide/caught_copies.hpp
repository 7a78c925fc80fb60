// What validation must say of the copies of a kernel on Hopper's tensor cores, with a mistake each.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "support/caught.hpp"
#include "support/devices.hpp"
#include "support/planted_copy.hpp"

namespace plumb_test {

/// Checks that copies without a mistake pass, and that the others are caught, in NHWC and NCHW.
/// Their kernel is for devices from `least_compute_major` on; of wgmma for sm_90 alone.
inline void check_copies(const std::vector<PlantedCopy>& copies,
                         const std::vector<std::string>& problems, plumb::Direction direction,
                         int least_compute_major = 9) {
  using plumb::Tier;
  const plumb::Device device = device_or_skip("cuda");
  const int major = device.info().compute_major;
  if (major < least_compute_major) SKIP("a device before the kernel's");
  if (least_compute_major == 9 && major != 9) SKIP("a device without wgmma");
  const std::vector<Tier> all(std::begin(plumb::all_tiers), std::end(plumb::all_tiers));
  for (const PlantedCopy& copy : copies)
    for (const plumb::Placement placement : {plumb::Placement::nhwc, plumb::Placement::nchw}) {
      CAPTURE(copy.mistake, static_cast<int>(placement));
      const plumb::Numerics& numerics = copy.algorithm.numerics;
      const plumb::DType dtype = numerics.operand == plumb::Operand::fp64 ? plumb::DType::f64
                                 : numerics.products == 3                 ? plumb::DType::f32
                                                                          : plumb::DType::f16;
      const auto caught_by = [&](const std::vector<Tier>& tiers) {
        return is_caught(device, copy.algorithm, problems, dtype, placement, tiers, direction);
      };
      if (copy.mistake.empty())
        CHECK_FALSE(caught_by(all));
      else if (copy.mistake == "low_twice" || copy.mistake == "lost_low")
        // small integers have no low halves
        CHECK(caught_by({Tier::bounded}));
      else
        CHECK(caught_by({Tier::exact}));
    }
}

}  // namespace plumb_test
