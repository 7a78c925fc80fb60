// Planted faults of the Toeplitz kernel's own mechanisms are caught.
#include <catch2/catch_test_macros.hpp>

#include "planted_toeplitz.hpp"
#include "support/caught.hpp"
#include "support/devices.hpp"

using namespace plumb;

TEST_CASE("cuda: planted faults of the Toeplitz kernel are caught", "[faults]") {
  const Device device = plumb_test::device_or_skip("cuda");
  if (device.info().compute_major != 9) SKIP("a device without wgmma");
  const std::vector<Tier> all(std::begin(all_tiers), std::end(all_tiers));
  // Rows and lines, of one pass and of several, at borders of each kind; and images so small that
  // the largest element of each channel has another exponent.
  const std::vector<std::string> all_modes{
      "mb1ic1ih150iw90oc1kh9ph4padperiodic", "mb2ic2iw1500oc3kw33pw16padreflect",
      "mb1ic2id5ih40iw70oc2kd3kh5kw7pd1ph2pw3padclamp", "mb2ic16ih5iw7oc2kh3ph1"};
  // Of filters with taps along all axes, which are planned as planes (test_toeplitz_plan.cpp).
  const std::vector<std::string> of_planes{"mb1ic1id40ih70iw200oc1kd7kh7kw7pd3ph3pw3padreflect",
                                           "mb2ic4id8ih5iw7oc2kd3kh5kw3pd1ph2pw1padclamp"};
  for (const plumb_test::PlantedCopy& copy : plumb_test::toeplitz_copies()) {
    CAPTURE(copy.mistake);
    // Small integers have no low parts and one scale: what loses these is outside of the bound.
    const bool of_halves = copy.mistake == "lost_low" || copy.mistake == "stale_scale";
    const std::vector<Tier> tiers =
        copy.mistake.empty() ? all : std::vector{of_halves ? Tier::bounded : Tier::exact};
    const bool planes = copy.mistake == "stale_plane";
    CHECK(plumb_test::is_caught(device, copy.algorithm, planes ? of_planes : all_modes, DType::f32,
                                Placement::nchw, tiers) == !copy.mistake.empty());
    if (copy.mistake.empty())
      CHECK_FALSE(plumb_test::is_caught(device, copy.algorithm, of_planes, DType::f32,
                                        Placement::nchw, tiers));
  }
}
