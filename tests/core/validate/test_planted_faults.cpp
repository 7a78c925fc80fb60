// Every planted fault is caught, by the tier that is there for it.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <set>

#include "planted_faults.hpp"
#include "support/devices.hpp"

using namespace plumb;
using plumb_test::Fault;

namespace {

const ConvAlgorithm* copy_for(const Device& device, Fault fault) {
  if (device.id() == host) return plumb_test::cpu_copy(fault);
#ifdef PLUMB_TEST_CUDA
  if (device.id().backend == "cuda") return plumb_test::cuda_copy(fault);
#endif
  return nullptr;
}

/// Small problems that between them have what each fault needs to show: padding, strides, groups,
/// square filters, more channels than a tile, a bias, three taps, a depth, volumes, a
/// boundary.
std::vector<ValidationCase> cases(const std::vector<const char*>& texts = {
                                      "mb2ic9ih9iw10oc5kh3ph1", "g2mb2ic12ih8iw7oc4kh3sh2ph1",
                                      "mb1ic40ih5oc6kh3ph1", "mb1ic3id4ih5iw6oc3kd3kh3kw3pd1ph1pw1",
                                      "mb2ic2id4ih5oc3kd2kh3pd1",
                                      "mb2ic2ih6iw7oc3kh3ph1_padperiodic"}) {
  std::vector<ValidationCase> cases;
  for (const char* text : texts) {
    cases.push_back(validation_case("", parse_problem(text).problem, Placement::nchw));
    cases.back().bias = true;
  }
  return cases;
}

/// Without guard pages, at which a fault that reads outside would end this process: here it is the
/// tiers that must see it.
std::set<Tier> tiers_that_caught(const Device& device, const ConvAlgorithm* copy,
                                 const std::vector<Tier>& tiers,
                                 const std::vector<ValidationCase>& tests) {
  std::set<Tier> caught;
  for (const ValidationCase& test : tests)
    for (const ValidationRecord& record :
         validate(device, {&copy, 1}, test, {.seed = 7, .tiers = tiers, .guard = GuardPages::none}))
      if (record.verdict == Verdict::fail) caught.insert(record.tier);
  return caught;
}

}  // namespace

TEST_CASE("planted faults are caught", "[faults]") {
  const std::vector<Tier> tiers(std::begin(all_tiers), std::end(all_tiers));
  int planted = 0;
  for (const Device& device : plumb_test::all_devices()) {
    const ConvAlgorithm* sound = copy_for(device, Fault::none);
    if (!sound) continue;
    CAPTURE(device.info().name);
    // A copy that failed without a fault would be caught for the wrong reason.
    REQUIRE(tiers_that_caught(device, sound, tiers, cases()).empty());
    for (const plumb_test::PlantedFault& fault : plumb_test::planted_faults) {
      const ConvAlgorithm* copy = copy_for(device, fault.fault);
      REQUIRE(copy);
      ++planted;
      const std::set<Tier> caught = tiers_that_caught(device, copy, tiers, cases());
      std::string names;
      for (const Tier tier : caught) names += fmt::format(" {}", to_string(tier));
      fmt::print("{:<8} {:<22} caught by{}\n", to_string(device.id()), fault.name, names);
      CAPTURE(fault.name, names);
      CHECK(caught.contains(fault.caught_by));
    }
  }
  REQUIRE(planted >= 10);
}

TEST_CASE("planted faults are caught through a pooling behind them", "[faults]") {
  // Even numbers of outputs, so that none of the last is dropped.
  const auto pooled =
      cases({"mb2ic9ih10iw12oc5kh3ph1_poolmax2x2", "g2mb2ic12ih8iw8oc4kh3sh2ph1_poolmax2x2",
             "mb1ic40ih6oc6kh3ph1_poolmax2x2", "mb2ic2ih6iw8oc3kh3ph1_poolmax2x2_padperiodic"});
  const std::vector<Tier> tiers(std::begin(all_tiers), std::end(all_tiers));
  for (const Device& device : plumb_test::all_devices()) {
    const ConvAlgorithm* sound = copy_for(device, Fault::none);
    if (!sound) continue;
    CAPTURE(device.info().name);
    REQUIRE(tiers_that_caught(device, sound, tiers, pooled).empty());
    for (const plumb_test::PlantedFault& fault : plumb_test::planted_faults) {
      // Behind what is pooled lies workspace, which may be written.
      if (fault.fault == Fault::write_past_the_end) continue;
      // What has a depth is not pooled.
      if (fault.fault == Fault::dropped_plane || fault.fault == Fault::border_plane ||
          fault.fault == Fault::planes_for_images)
        continue;
      CAPTURE(fault.name);
      // A race on few outputs may end well now and then, on a busy machine above all.
      const int attempts = fault.fault == Fault::missing_barrier ? 20 : 1;
      bool caught = false;
      for (int i = 0; i < attempts && !caught; ++i)
        caught = tiers_that_caught(device, copy_for(device, fault.fault), {fault.caught_by}, pooled)
                     .contains(fault.caught_by);
      CHECK(caught);
    }
  }
}

TEST_CASE("each tier catches what no other does", "[faults]") {
  // Without its tier each of these would reach a user.
  const Device cpu = Device::open("cpu");
  const auto others = [](Tier left_out) {
    std::vector<Tier> tiers;
    for (const Tier tier : all_tiers)
      if (tier != left_out) tiers.push_back(tier);
    return tiers;
  };
  const struct {
    Fault fault;
    Tier tier;
  } alone[] = {{Fault::write_before_input, Tier::exact},
               {Fault::rounded_result, Tier::bounded},
               {Fault::swallowed_nan, Tier::bounded},
               {Fault::unstable_order, Tier::repeatable},
               {Fault::wrong_claim, Tier::attested}};
  for (const auto& [fault, tier] : alone) {
    const ConvAlgorithm* copy = plumb_test::cpu_copy(fault);
    CAPTURE(static_cast<int>(fault), to_string(tier));
    CHECK(tiers_that_caught(cpu, copy, {tier}, cases()) == std::set{tier});
    CHECK(tiers_that_caught(cpu, copy, others(tier), cases()).empty());
  }
}
