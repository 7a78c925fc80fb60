// Backward data with strides whose phases have copies of dy and dx with channels innermost.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "plumb/plumb.hpp"
#include "strided_gradients.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

constexpr std::string_view name = "cpu.conv.direct.fp32";

/// Problems of several phases, in every rank and with every kind of edge.
constexpr const char* texts[] = {
    "mb3ic8ih13iw14oc9kh3kw3sh2sw2ph1pw1",
    "mb2ic16ih9iw8oc12kh1kw1sh2sw2",
    "mb2ic8ih12iw11oc8kh2kw2sh2sw2",
    "mb2ic6ih14iw17oc8kh4kw5sh3sw2ph2pw4",
    "g2mb2ic8ih12iw9oc16kh3kw3sh2sw2ph1pw1",
    "mb2ic9iw29oc8kw9sw4pw2",
    "mb2ic5ih9iw21oc8kh3kw4sh1sw2ph1pw0dh2dw0",
    "mb2ic4ih11iw11oc8kh3kw3sh2sw2ph1pw1dh2dw2",
    "mb1ic4id9ih8iw10oc8kd3kh3kw3sd2sh2sw2pd1ph1pw1",
    "mb2ic8ih14iw13oc8kh3kw3sh2sw2ph1pw1_padreflect",
    "mb1ic3ih7iw6oc2kh2kw2sh4sw4",
};

bool lies_innermost(const Extents& extents, const Strides& strides) {
  return extents[1] == 1 || strides[1] == 1;
}

bool lies_innermost(const ConvProblem& p) {
  return lies_innermost(p.x_extents(), p.x_strides) && lies_innermost(p.y_extents(), p.y_strides);
}

using Damage = void (*)(const ConvLaunch&);
const ConvAlgorithm* original = nullptr;
Damage damage = nullptr;
std::atomic<int> launches = 0, launches_of_planes = 0;  // several threads validate

/// A copy that is said to take long where channels do not lie innermost.
ConvAlgorithm copy_of_direct(Damage done) {
  const Device cpu = Device::open("cpu");
  original = &algorithm_of(cpu, name);
  damage = done;
  ConvAlgorithm copy = *original;
  copy.name = "cpu.conv.direct.innermost";
  copy.numerics.reproducible = false;
  copy.plan = [](const ConvProblem& problem, const DeviceInfo& device) {
    PlanResult plan = original->plan(problem, device);
    plan.estimate_seconds = lies_innermost(problem) ? 1e-9 : 1;
    return plan;
  };
  copy.launch = [](const ConvLaunch& launch, const KernelPlan* plan) {
    ++(lies_innermost(launch.problem) ? launches : launches_of_planes);
    original->launch(launch, plan);
    if (damage) damage(launch);
  };
  return copy;
}

}  // namespace

TEST_CASE("copied phases: all tiers hold, in every rank and layout") {
  const ConvAlgorithm copy = copy_of_direct(nullptr);
  for (const Placement placement : {Placement::nchw, Placement::nhwc, Placement::strided})
    CHECK(tiers_that_fail(copy, placement, texts).empty());
}

TEST_CASE("copied phases: planted faults are caught", "[faults]") {
  const auto first_output = [](const ConvLaunch& launch) -> float& {
    return static_cast<float*>(launch.y)[0];
  };
  static const auto first = first_output;
  SECTION("an output of a phase is wrong") {
    const ConvAlgorithm copy = copy_of_direct([](const ConvLaunch& launch) { first(launch) += 1; });
    CHECK(tiers_that_fail(copy, Placement::nchw, texts).contains(Tier::exact));
  }
  SECTION("a phase is not a number") {
    const ConvAlgorithm copy = copy_of_direct(
        [](const ConvLaunch& launch) { first(launch) = std::numeric_limits<float>::quiet_NaN(); });
    CHECK(tiers_that_fail(copy, Placement::nchw, texts).contains(Tier::exact));
  }
}

TEST_CASE("copied phases: where tensors are copied, and where they are not") {
  const Device cpu = Device::open("cpu");
  const ConvAlgorithm copy = copy_of_direct(nullptr);
  const auto workspace = [&](const ConvProblem& of, bool accumulate = false) {
    return ask(copy, of, cpu.info(), accumulate).workspace_bytes;
  };
  ConvProblem problem = data_problem(texts[0]);
  const auto bytes = [&](const Extents& extents) {
    return static_cast<std::size_t>(element_count(extents)) * sizeof(float);
  };
  const std::size_t dx = bytes(problem.x_extents()), dy = bytes(problem.y_extents());
  const std::size_t of_both = workspace(problem);
  CHECK(of_both >= dx + dy);
  // Sums that are added to are phases in place.
  CHECK(workspace(problem, true) < dx);
  ConvProblem one = problem;
  one.stride = {1, 1, 1};
  one.x_strides = one.y_strides = {};
  CHECK(workspace(check(one)) < dx);
  // One tensor's channels lie innermost.
  problem.y_strides = {problem.p() * problem.q() * problem.k, 1, problem.q() * problem.k,
                       problem.k};
  CHECK(workspace(check(problem)) >= dx);
  CHECK(workspace(check(problem)) < of_both);
  // Many images decide for one.
  problem = data_problem(texts[0]);
  problem.n = 1;
  problem.x_strides = problem.y_strides = {};
  problem = check(problem);
  CHECK(workspace(problem) >= bytes(problem.x_extents()) + bytes(problem.y_extents()));
}

TEST_CASE("copied phases: the algorithm meets channels innermost alone") {
  const ConvAlgorithm copy = copy_of_direct(nullptr);
  const ConvAlgorithm* const list[] = {&copy};
  launches = launches_of_planes = 0;
  for (const ValidationRecord& record :
       validate(Device::open("cpu"), list,
                validation_case("", data_problem(texts[0]), Placement::nchw), {.seed = 5}))
    CHECK(record.verdict == Verdict::pass);
  CHECK(launches.load() > 0);
  CHECK(launches.load() % 4 == 0);
  CHECK(launches_of_planes.load() == 0);
}
