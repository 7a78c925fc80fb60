// Backward data with strides as one forward convolution whose filters are the phases of dx.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "plumb/plumb.hpp"
#include "strided_gradients.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

constexpr std::string_view name = "cpu.conv.direct.fp32";

/// Problems that are joined, in every rank and with every kind of edge.
constexpr const char* texts[] = {
    "mb3ic1ih13iw14oc9kh5kw5sh2sw2",
    "mb2ic3ih16iw15oc16kh7kw7sh2sw2ph3pw3",
    "mb2ic2ih14iw17oc8kh3kw5sh3sw2ph2pw4",
    "g2mb2ic4ih12iw9oc16kh3kw3sh2sw2ph1pw1",
    "mb2ic3iw29oc8kw9sw4pw2",
    "mb2ic2ih9iw21oc8kh3kw4sh1sw2ph1pw0dh2dw0",
    "mb1ic2id9ih8iw10oc8kd3kh3kw3sd2sh2sw2pd1ph1pw1",
    "mb1ic1id7ih8iw10oc8kd3kh2kw3sd1sh2sw1pd1ph0pw1",
    "mb2ic2ih14iw13oc8kh3kw3sh2sw2ph1pw1_padreflect",
    "mb2ic1ih23iw11oc8kh4kw4sh4sw4",
};

/// What the launch of a copy of the algorithm does behind the algorithm itself.
using Damage = void (*)(const ConvLaunch&);
const ConvAlgorithm* original = nullptr;
Damage damage = nullptr;

/// A copy whose estimates are the same for all problems, so that one convolution is better than
/// several.
ConvAlgorithm copy_of_direct(Damage done) {
  const Device cpu = Device::open("cpu");
  original = &algorithm_of(cpu, name);
  damage = done;
  ConvAlgorithm copy = *original;
  copy.name = "cpu.conv.direct.joined";
  copy.numerics.reproducible = false;  // such gradients are not joined
  copy.plan = [](const ConvProblem& problem, const DeviceInfo& device) {
    PlanResult plan = original->plan(problem, device);
    plan.estimate_seconds = 1;
    return plan;
  };
  copy.launch = [](const ConvLaunch& launch, const KernelPlan* plan) {
    original->launch(launch, plan);
    if (damage) damage(launch);
  };
  return copy;
}

template <class F>
void for_each_output(const ConvLaunch& launch, const F& f) {
  const Extents y = launch.problem.y_extents();
  const Strides& strides = launch.problem.y_strides;
  std::vector<std::int64_t> index(static_cast<std::size_t>(y.rank()));
  auto* const data = static_cast<float*>(launch.y);
  for (std::int64_t element = 0; element < element_count(y); ++element) {
    std::int64_t left = element, at = 0;
    for (int i = y.rank() - 1; i >= 0; --i) {
      index[static_cast<std::size_t>(i)] = left % y[i];
      at += left % y[i] * strides[i];
      left /= y[i];
    }
    f(data[at], index);
  }
}

/// Of problems that are joined.
std::set<Tier> joined_tiers_that_fail(const ConvAlgorithm& copy, Placement placement,
                                      std::span<const char* const> problems = texts,
                                      DType dtype = DType::f32) {
  for (const char* text : problems) {
    CAPTURE(text);
    const ConvProblem problem = data_problem(text, dtype);
    REQUIRE(ask(copy, problem, Device::open("cpu").info()).forward_convolutions == 1);
  }
  return tiers_that_fail(copy, placement, problems, dtype);
}

}  // namespace

TEST_CASE("joined gradients: all tiers hold, in every rank and layout") {
  const ConvAlgorithm copy = copy_of_direct(nullptr);
  for (const Placement placement : {Placement::nchw, Placement::nhwc, Placement::strided})
    CHECK(joined_tiers_that_fail(copy, placement).empty());
}

/// With a bias, which is added before the one rounding.
TEST_CASE("joined gradients: narrow types are rounded once") {
  const ConvAlgorithm copy = copy_of_direct(nullptr);
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const Placement placement : {Placement::nchw, Placement::nhwc, Placement::strided})
      CHECK(joined_tiers_that_fail(copy, placement, texts, dtype).empty());
}

TEST_CASE("joined gradients: 32 MiB of sums at a time") {
  constexpr const char* many[] = {"mb70ic1ih400iw400oc1kh2kw2sh2sw2"};  // 52 images and 18
  const ConvAlgorithm copy = copy_of_direct(nullptr);
  CHECK(joined_tiers_that_fail(copy, Placement::nchw, many).empty());
  const std::size_t one_image = std::size_t{4} * 400 * 400;
  const Device cpu = Device::open("cpu");
  const ConvCandidate plan = ask(copy, data_problem(many[0]), cpu.info());
  CHECK(plan.workspace_bytes >= 52 * one_image);
  CHECK(plan.workspace_bytes < 70 * one_image);
}

/// In double, which the attested tier notices.
TEST_CASE("joined gradients: a sum that is NaN is formed anew") {
  const ConvAlgorithm copy = copy_of_direct([](const ConvLaunch& launch) {
    for_each_output(launch,
                    [](float& sum, const auto&) { sum = std::numeric_limits<float>::quiet_NaN(); });
  });
  for (const Placement placement : {Placement::nchw, Placement::nhwc, Placement::strided})
    CHECK(joined_tiers_that_fail(copy, placement) == std::set{Tier::attested});
}

TEST_CASE("joined gradients: planted faults are caught", "[faults]") {
  SECTION("a phase is lost") {
    const ConvAlgorithm copy = copy_of_direct([](const ConvLaunch& launch) {
      for_each_output(launch, [&](float& sum, const auto& index) {
        if (index[1] == launch.problem.k - 1) sum = 0;
      });
    });
    CHECK(joined_tiers_that_fail(copy, Placement::nchw).contains(Tier::exact));
  }
  SECTION("the sums of a phase are those of the next pixel") {
    const ConvAlgorithm copy = copy_of_direct([](const ConvLaunch& launch) {
      float before = 0;
      for_each_output(launch, [&](float& sum, const auto&) { std::swap(sum, before); });
    });
    CHECK(joined_tiers_that_fail(copy, Placement::nchw).contains(Tier::exact));
  }
}

TEST_CASE("joined gradients: where it is not done") {
  const Device cpu = Device::open("cpu");
  const ConvAlgorithm copy = copy_of_direct(nullptr);
  const auto convolutions = [&](const char* text) {
    return ask(copy, data_problem(text), cpu.info()).forward_convolutions;
  };
  CHECK(convolutions("mb2ic2ih9iw9oc4kh3ph1") == 1);        // has no strides
  CHECK(convolutions("mb2ic2ih9iw9oc4kh1kw1sh2sw2") == 1);  // phases without a tap
  CHECK(convolutions("mb2ic2ih11iw11oc4kh3sh2dh2") == 4);   // dilated
  CHECK(convolutions("mb2ic128ih9iw9oc4kh3sh2ph1") == 4);   // enough filters
  CHECK(convolutions("mb2ic2ih9iw9oc4kh3sh2ph1") == 1);
}

TEST_CASE("joined gradients: bits, batches and workspace") {
  const Device cpu = Device::open("cpu");
  const ConvAlgorithm& direct = algorithm_of(cpu, name);
  ConvProblem problem = data_problem(texts[0]);
  // Many images decide for one, which has the same bits then.
  const auto convolutions = [&](std::int64_t images) {
    problem.n = images;
    return ask(direct, check(problem), cpu.info()).forward_convolutions;
  };
  CHECK(convolutions(1) == convolutions(1000));
  CHECK(convolutions(0) == convolutions(1000));

  problem = data_problem(texts[0]);
  const auto plan = [&](const ConvOptions& options) { return ConvPlan(cpu, problem, options); };
  const std::string algorithm{name};
  const ConvPlan free = plan({.algorithm = algorithm});
  REQUIRE(free.workspace_bytes() > 0);
  const ConvPlan less =
      plan({.algorithm = algorithm, .workspace_limit_bytes = free.workspace_bytes() - 1});
  CHECK(less.workspace_bytes() < free.workspace_bytes());
}

namespace {

/// Axes with one output: padding, dilation, strides, groups, in every rank, and one axis of
/// several.
constexpr const char* of_one_output[] = {
    "mb3ic5ih7iw7oc9kh7kw7",
    "g2mb2ic6ih7iw5oc8kh7kw5sh3sw2",
    "mb2ic5ih3iw3oc4kh5kw5ph1pw1",
    "mb2ic5ih1iw1oc4kh3kw3ph1pw1",
    "mb2ic3ih5iw5oc4kh3kw3dh1dw1",
    "mb2ic3ih8iw7oc4kh7kw6sh3sw2",
    "mb2ic4ih3iw20oc5kh3kw3pw1",
    "mb2ic4ih3iw21oc5kh3kw3ph0pw1sw2",
    "g2mb2ic4iw9oc6kw9",
    "mb2ic4iw5oc6kw9pw2sw3",
    "mb2ic3id3ih3iw3oc4kd3kh3kw3",
    "mb1ic3id2ih4iw9oc4kd3kh4kw3pd1ph0pw1sd2",
    "mb2ic3id1ih5iw5oc4kd3kh5kw5pd1",
};

/// A copy that is said to take as long as there are taps, so that taps are to be apart.
ConvAlgorithm copy_that_counts_taps(Damage done) {
  ConvAlgorithm copy = copy_of_direct(done);
  copy.plan = [](const ConvProblem& problem, const DeviceInfo& device) {
    PlanResult plan = original->plan(problem, device);
    plan.estimate_seconds = static_cast<double>(problem.t * problem.r * problem.s);
    return plan;
  };
  return copy;
}

}  // namespace

TEST_CASE("joined gradients: axes with one output, in every rank and layout") {
  const ConvAlgorithm copy = copy_that_counts_taps(nullptr);
  for (const Placement placement : {Placement::nchw, Placement::nhwc, Placement::strided})
    CHECK(tiers_that_fail(copy, placement, of_one_output).empty());
}

TEST_CASE("joined gradients: of one output a wrong sum is caught", "[faults]") {
  const ConvAlgorithm copy = copy_that_counts_taps([](const ConvLaunch& launch) {
    for_each_output(launch, [&](float& sum, const auto& index) {
      if (index[1] == launch.problem.k - 1) sum = 0;
    });
  });
  CHECK(tiers_that_fail(copy, Placement::nchw, of_one_output).contains(Tier::exact));
}

TEST_CASE("joined gradients: of one output each tap is a phase") {
  const Device cpu = Device::open("cpu");
  const ConvAlgorithm copy = copy_that_counts_taps(nullptr);
  const auto plan = [&](const char* text, bool accumulate = false) {
    return ask(copy, data_problem(text), cpu.info(), accumulate);
  };
  CHECK(plan("mb2ic5ih7iw7oc9kh7kw7").estimate_seconds < 2);         // one of one tap
  CHECK(plan("mb2ic5ih1iw1oc4kh3kw3ph1pw1").estimate_seconds < 2);   // by itself
  CHECK(plan("mb2ic3ih5iw5oc4kh3kw3dh1dw1").estimate_seconds >= 9);  // none that is joined
  CHECK(plan("g4mb2ic4ih7iw7oc4kh7kw7").estimate_seconds >= 49);     // depthwise
  CHECK(plan("mb2ic5ih3iw3oc4kh3kw3", true).estimate_seconds >= 9);  // adds in place
  CHECK(plan("mb2ic5ih1iw1oc4kh3kw3ph1pw1", true).forward_convolutions == 1);
}

TEST_CASE("joined gradients: filters that were packed for other phases are refused") {
  const Device cpu = Device::open("cpu");
  Queue queue(cpu);
  const ConvProblem problem = data_problem(texts[0]);
  const ConvPlan free(cpu, problem, {.algorithm = std::string(name)});
  const ConvPlan adds(cpu, problem, {.algorithm = std::string(name), .accumulate = true});
  std::vector<float> w(static_cast<std::size_t>(element_count(problem.w_extents())));
  const PackedFilters filters =
      free.pack(queue, ConstTensorView(w.data(), DType::f32, problem.w_extents(), cpu.id()));
  CHECK(free.takes(filters));
  CHECK_FALSE(adds.takes(filters));
}
