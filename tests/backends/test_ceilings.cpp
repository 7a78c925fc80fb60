// The ceilings that each device measures on itself: plausible, and alike when measured again.
#include <catch2/catch_test_macros.hpp>

#include "support/devices.hpp"
#include "support/forced_instruction_set.hpp"

using namespace plumb;

namespace {

/// A CPU, which Kokkos may run on too, is shared with whatever else runs on it, and then has a
/// fraction of itself to give.
bool alike(const Device& device, double a, double b) {
  const double factor = device.info().compute_major == 0 ? 10 : 1.5;
  return a < factor * b && b < factor * a;
}

}  // namespace

TEST_CASE("ceilings are measured, and measured again", "[timed]") {
  for (const Device& device : plumb_test::all_devices()) {
    const DeviceCeilings once = device.measure_ceilings(), again = device.measure_ceilings();
    CAPTURE(to_string(device.id()), once.bytes_per_second, again.bytes_per_second);
    CHECK(once.bytes_per_second > 1e9);
    CHECK(alike(device, once.bytes_per_second, again.bytes_per_second));
    for (const Math math : {Math::fp64, Math::fp32, Math::tf32, Math::bf16, Math::fp16}) {
      CAPTURE(to_string(math), once.flop_per_second(math), again.flop_per_second(math));
      CHECK(once.flop_per_second(math) > 1e8);
      CHECK(alike(device, once.flop_per_second(math), again.flop_per_second(math)));
    }
    CHECK(2 * once.flop_per_second(Math::fp32) >= once.flop_per_second(Math::fp64));
    CHECK(once.flop_per_second(Math::tf32) >= once.flop_per_second(Math::fp32));
    CHECK(once.flop_per_second(Math::fp16) >= once.flop_per_second(Math::tf32));
  }
}

TEST_CASE("cuda: ceilings lie under what the chip's attributes say, and not far under", "[timed]") {
  const Device device = plumb_test::device_or_skip("cuda");
  const DeviceInfo& info = device.info();
  const DeviceCeilings ceilings = device.measure_ceilings();
  CAPTURE(ceilings.bytes_per_second, ceilings.fp32_flop_per_second);
  CHECK(ceilings.bytes_per_second > 0.5 * info.nominal_bytes_per_second);
  CHECK(ceilings.bytes_per_second < 1.01 * info.nominal_bytes_per_second);
  CHECK(ceilings.fp32_flop_per_second > 0.5 * info.nominal_fp32_flop_per_second);
  CHECK(ceilings.fp32_flop_per_second < 1.01 * info.nominal_fp32_flop_per_second);
  CHECK(ceilings.fp16_fma_flop_per_second > 0);
  const double hertz = device.measure_clock_hertz();
  CAPTURE(hertz);
  CHECK(hertz > 0.1e9);
  CHECK(hertz < 5e9);
}

TEST_CASE("cpu: f16 and bf16 have the ceiling of fp32, and no clock is reported", "[timed]") {
  const Device device = Device::open("cpu");
  const DeviceCeilings ceilings = device.measure_ceilings();
  for (const Math narrow : {Math::tf32, Math::bf16, Math::fp16})
    CHECK(ceilings.flop_per_second(narrow) == ceilings.flop_per_second(Math::fp32));
  CHECK(device.measure_clock_hertz() == 0);
}

TEST_CASE("cpu: every instruction set has its ceilings, and fp32 twice the lanes of fp64",
          "[timed]") {
  for (const char* name : {"sse2", "avx2", "avx512"}) {
    const plumb_test::ForcedInstructionSet forced(name);
    const DeviceCeilings ceilings = Device::open("cpu").measure_ceilings();
    CAPTURE(name, ceilings.fp32_flop_per_second, ceilings.fp64_flop_per_second);
    CHECK(ceilings.fp64_flop_per_second > 1e8);
    CHECK(2 * ceilings.fp32_flop_per_second > ceilings.fp64_flop_per_second);
    CHECK(ceilings.bytes_per_second > 1e8);
  }
}
