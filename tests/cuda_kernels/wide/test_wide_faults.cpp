// Planted faults of the wide kernel's own mechanisms are caught.
#include <catch2/catch_test_macros.hpp>

#include "planted_wide.hpp"
#include "support/devices.hpp"

using namespace plumb;

namespace {

/// Whether a tier of the list fails on a problem of the list.
bool is_caught(const Device& device, const ConvAlgorithm& algorithm,
               const std::vector<Tier>& tiers) {
  const ConvAlgorithm* const copy = &algorithm;
  int runs = 0;
  bool caught = false;
  for (const char* text : {"mb2ic72ih9iw10oc40kh3ph1", "mb3ic128ih14oc136kh3ph1sh2",
                           "mb2ic64id4ih5iw6oc24kd3kh3kw3pd1ph1pw1"}) {
    ConvProblem problem = parse_problem(text).problem;
    problem.dtype = DType::f16;
    const ValidationCase test = validation_case("", problem, Placement::nhwc);
    for (const ValidationRecord& record :
         validate(device, {&copy, 1}, test, {.seed = 7, .tiers = tiers})) {
      runs += record.verdict != Verdict::unsupported;
      caught = caught || record.verdict == Verdict::fail;
    }
  }
  CHECK(runs > 0);
  return caught;
}

}  // namespace

TEST_CASE("cuda: planted faults of the wide kernel are caught", "[faults]") {
  const Device device = plumb_test::device_or_skip("cuda");
  if (device.info().compute_major != 9) SKIP("a device without wgmma");
  const std::vector<Tier> all(std::begin(all_tiers), std::end(all_tiers));
  for (const plumb_test::WideCopy& copy : plumb_test::wide_copies()) {
    CAPTURE(copy.mistake);
    if (copy.mistake.empty())
      CHECK_FALSE(is_caught(device, copy.algorithm, all));
    else
      CHECK(is_caught(device, copy.algorithm, {Tier::exact}));
  }
}
