// Planted faults of the mechanisms of wide_weights/ are caught, on a GPU with wgmma.
#include <catch2/catch_test_macros.hpp>

#include "planted_wide_weights.hpp"
#include "support/caught.hpp"
#include "support/devices.hpp"

using namespace plumb;

TEST_CASE("cuda: planted faults of the wide kernel of backward weights are caught", "[faults]") {
  const Device device = plumb_test::device_or_skip("cuda");
  if (device.info().compute_major != 9) SKIP("a device without wgmma");
  const std::vector<Tier> all(std::begin(all_tiers), std::end(all_tiers));
  const std::vector<std::string> problems{
      "mb4ic72ih9iw10oc136kh3ph1", "mb3ic128ih14oc136kh3ph1sh2", "g2mb2ic144ih9iw10oc40kh3ph1",
      // Of few terms, so that a lost low half is beyond their bound.
      "mb1ic8ih4iw5oc40kh1ph0"};
  const auto is_caught = [&](const ConvAlgorithm& algorithm, Placement placement,
                             const std::vector<Tier>& tiers) {
    const DType dtype = algorithm.numerics.products == 3 ? DType::f32 : DType::f16;
    return plumb_test::is_caught(device, algorithm, problems, dtype, placement, tiers,
                                 Direction::backward_weights);
  };
  for (const plumb_test::PlantedCopy& copy : plumb_test::wide_weights_copies())
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
