// Planted faults of depthwise backward weights are caught, on a GPU.
#include <catch2/catch_test_macros.hpp>

#include "planted_depthwise_weights.hpp"
#include "support/caught.hpp"
#include "support/devices.hpp"

using namespace plumb;

TEST_CASE("cuda: planted faults of depthwise backward weights are caught", "[faults]") {
  const Device device = plumb_test::device_or_skip("cuda");
  const std::vector<Tier> all(std::begin(all_tiers), std::end(all_tiers));
  const std::vector<std::string> problems{"g40mb8ic40ih20oc40kh5ph2", "g6mb9ic6ih14oc6kh7ph3",
                                          "g3mb3ic3ih60oc3kh3ph1"};
  for (const plumb_test::PlantedCopy& copy : plumb_test::depthwise_weights_copies())
    for (const Placement placement : {Placement::nchw, Placement::nhwc}) {
      CAPTURE(copy.mistake, static_cast<int>(placement));
      const std::vector<Tier> tiers = copy.mistake.empty() ? all : std::vector{Tier::exact};
      CHECK(plumb_test::is_caught(device, copy.algorithm, problems, DType::f32, placement, tiers,
                                  Direction::backward_weights) == !copy.mistake.empty());
    }
}
