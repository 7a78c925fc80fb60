// Planted faults of the wide kernel's own mechanisms are caught.
#include <catch2/catch_test_macros.hpp>

#include "planted_wide.hpp"
#include "support/caught.hpp"
#include "support/devices.hpp"

using namespace plumb;

TEST_CASE("cuda: planted faults of the wide kernel are caught", "[faults]") {
  const Device device = plumb_test::device_or_skip("cuda");
  if (device.info().compute_major != 9) SKIP("a device without wgmma");
  const std::vector<Tier> all(std::begin(all_tiers), std::end(all_tiers));
  const auto is_caught = [&](const ConvAlgorithm& algorithm, const std::vector<Tier>& tiers) {
    return plumb_test::is_caught(device, algorithm,
                                 {"mb2ic72ih9iw10oc40kh3ph1", "mb3ic128ih14oc136kh3ph1sh2",
                                  "mb2ic64id4ih5iw6oc24kd3kh3kw3pd1ph1pw1"},
                                 DType::f16, Placement::nhwc, tiers);
  };
  for (const plumb_test::PlantedCopy& copy : plumb_test::wide_copies()) {
    CAPTURE(copy.mistake);
    if (copy.mistake.empty())
      CHECK_FALSE(is_caught(copy.algorithm, all));
    else
      CHECK(is_caught(copy.algorithm, {Tier::exact}));
  }
}
