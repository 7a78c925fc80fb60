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
  const std::vector<std::string> problems{
      "mb2ic72ih9iw10oc40kh3ph1", "mb3ic128ih14oc136kh3ph1sh2",
      "mb2ic64id4ih5iw6oc24kd3kh3kw3pd1ph1pw1", "g2mb2ic144ih9iw10oc40kh3ph1",
      "mb2ic3ih32iw48oc40kh16sh16ph0",  // taps as channels
      // Of few terms, so that a lost low half is beyond their bound.
      "mb2ic8ih9iw10oc40kh1ph0", "mb2ic16ih9iw10oc24kh1ph0"};
  const auto is_caught = [&](const ConvAlgorithm& algorithm, Placement placement,
                             const std::vector<Tier>& tiers) {
    const DType dtype = algorithm.numerics.products == 3 ? DType::f32 : DType::f16;
    return plumb_test::is_caught(device, algorithm, problems, dtype, placement, tiers);
  };
  for (const plumb_test::PlantedCopy& copy : plumb_test::wide_copies())
    for (const Placement placement : {Placement::nhwc, Placement::nchw}) {
      CAPTURE(copy.mistake, static_cast<int>(placement));
      if (copy.mistake.empty())
        CHECK_FALSE(is_caught(copy.algorithm, placement, all));
      else if (copy.mistake == "low_twice")  // small integers have no low halves
        CHECK(is_caught(copy.algorithm, placement, {Tier::bounded}));
      else
        CHECK(is_caught(copy.algorithm, placement, {Tier::exact}));
    }
}
