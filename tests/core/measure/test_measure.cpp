// Timing: what is asked of every measurement, whatever the times are.
#include "plumb/measure.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "support/devices.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Matches;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::WithinRel;

namespace {

/// Quick, for problems of any size.
const MeasureOptions few{.min_samples = 3,
                         .max_samples = 5,
                         .seconds_limit = 0.01,
                         .warm_up_seconds = 0,
                         .cold_bytes = 1 << 22};

/// The same where no run takes 200 us, by the clock that is gone by: on a machine that is busy with
/// other things any may, and longer ones stay on one set of buffers.
MeasureOptions few_short() {
  MeasureOptions options = few;
  options.clock = [](std::string_view, double seconds) { return std::min(seconds, 199e-6); };
  return options;
}

/// A plan of every algorithm that runs the problem by itself.
std::vector<ConvPlan> all_plans(const Device& device, const ConvProblem& problem,
                                ConvOptions options = {.math = Math::fp16}) {
  std::vector<ConvPlan> plans;
  for (const ConvCandidate& candidate : explain(device, problem, options)) {
    if (!candidate.support) continue;
    options.algorithm = candidate.algorithm;
    plans.emplace_back(device, problem, options);
  }
  return plans;
}

ConvProblem problem_of(const char* text) { return parse_problem(text).problem; }

}  // namespace

TEST_CASE("every algorithm is timed, and its timed output held against the oracle") {
  for (const Device& device : plumb_test::all_devices())
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      ConvProblem problem = problem_of(dtype == DType::f32 ? "mb9ic2ih8iw13oc3kh3sh2ph1_poolmax2x2"
                                                           : "mb9ic2ih8iw11oc3kh3sh2ph1");
      problem.dtype = dtype;
      const auto plans = all_plans(
          device, problem, {.math = Math::fp16, .bias = true, .activation = Activation::relu});
      REQUIRE(plans.size() > 0);
      const Measurements seen = measure(plans, few_short());
      REQUIRE(seen.contestants.size() == plans.size());
      REQUIRE(seen.buffer_sets > 1);
      for (std::size_t i = 0; i < plans.size(); ++i) {
        const Measurement& one = seen.contestants[i];
        CAPTURE(one.algorithm, to_string(dtype));
        REQUIRE(one.algorithm == plans[i].algorithm().name);
        REQUIRE(one.failure.empty());
        REQUIRE(one.samples >= 3);
        REQUIRE(one.min_seconds > 0);
        REQUIRE(one.median_seconds >= one.min_seconds);
        REQUIRE(one.max_error_over_bound <= 1);
        // Random data in a type that rounds: no error at all would mean that nothing was compared.
        if (dtype != DType::f64) REQUIRE(one.max_error_over_bound > 0);
      }
    }
}

TEST_CASE("runs of less than 200 us go round sets of buffers, longer ones stay on one") {
  const Device cpu = Device::open("cpu");
  const auto plans = all_plans(cpu, problem_of("mb1ic16ih5oc24kh3"));
  const auto sets = [&](double seconds, std::size_t cold_bytes) {
    MeasureOptions options = few;
    options.cold_bytes = cold_bytes;
    options.clock = [=](std::string_view, double) { return seconds; };
    return measure(plans, options).buffer_sets;
  };
  REQUIRE(sets(199e-6, few.cold_bytes) > 1);
  REQUIRE(sets(201e-6, few.cold_bytes) == 1);
  REQUIRE(sets(199e-6, 0) == 1);
}

TEST_CASE("the packing of filters is counted, or done before, and said so") {
  const Device cpu = Device::open("cpu");
  ConvProblem problem = problem_of("mb1ic16ih5oc24kh3");
  const auto plans = all_plans(cpu, problem);
  for (const bool before : {false, true}) {
    MeasureOptions options = few_short();
    options.packed_filters = before;
    const Measurements seen = measure(plans, options);
    REQUIRE(seen.buffer_sets > 1);  // each with filters of its own
    int packed = 0;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const Measurement& one = seen.contestants[i];
      CAPTURE(one.algorithm, before);
      REQUIRE(one.failure.empty());
      REQUIRE(one.max_error_over_bound <= 1);
      REQUIRE(one.max_error_over_bound > 0);
      const PackingTime packs = before ? PackingTime::before : PackingTime::counted;
      REQUIRE(one.packing == (plans[i].packs_filters() ? packs : PackingTime::none));
      packed += plans[i].packs_filters();
    }
    REQUIRE(packed > 0);
  }
}

TEST_CASE("samples are as many as asked for, and few of what is hopeless") {
  const Device cpu = Device::open("cpu");
  const ConvProblem problem = problem_of("mb2ic16ih40oc16kh3ph1");
  const auto plans = all_plans(cpu, problem, {});
  REQUIRE(plans.size() > 1);
  MeasureOptions options{.min_samples = 20, .max_samples = 20, .check = false};
  for (const Measurement& one : measure(plans, options).contestants) {
    REQUIRE(one.samples == 20);
    REQUIRE_FALSE(one.given_up);
    REQUIRE(one.max_error_over_bound == 0);
  }
  // Below 1 even the best is slower than it may be.
  options.give_up_factor = 0.5;
  for (const Measurement& one : measure(plans, options).contestants) {
    REQUIRE(one.given_up);
    REQUIRE(one.samples == 3);
  }
}

TEST_CASE("tensors with gaps and layouts of other orders are measured too") {
  for (const Device& device : plumb_test::all_devices())
    for (const Placement placement : {Placement::nhwc, Placement::strided}) {
      const ConvProblem problem =
          validation_case("", problem_of("g2mb7ic4ih9iw10oc6kh3ph1"), placement).problem;
      for (const Measurement& one : measure(all_plans(device, problem), few).contestants) {
        CAPTURE(one.algorithm);
        REQUIRE(one.max_error_over_bound > 0);
        REQUIRE(one.max_error_over_bound <= 1);
      }
    }
}

namespace {

/// A clock by which every run takes what `script` says, given the algorithm and how many of its
/// runs were timed before.
template <class Script>
MeasureOptions by_script(const Script& script) {
  MeasureOptions options{.min_samples = 20,
                         .max_samples = 20,
                         .warm_up_seconds = 0,
                         .cold_bytes = 0,
                         .check = false,
                         .estimate_limit = std::numeric_limits<double>::infinity()};
  const auto counts = std::make_shared<std::map<std::string, int>>();
  options.clock = [counts, script](std::string_view algorithm, double) {
    return script(algorithm, (*counts)[std::string(algorithm)]++);
  };
  return options;
}

}  // namespace

TEST_CASE("samples that scatter are taken again, and unsteady where they still do") {
  const Device cpu = Device::open("cpu");
  const auto plans = all_plans(cpu, problem_of("mb2ic3ih9oc4kh3"));
  REQUIRE(plans.size() > 2);
  const std::string_view noisy = plans[0].algorithm().name, calmed = plans[1].algorithm().name;
  const auto options = by_script([&](std::string_view algorithm, int run) {
    // A neighbour that comes and goes, and one that goes after the first samples.
    const bool disturbed = algorithm == noisy || (algorithm == calmed && run < 23);
    return disturbed && run % 4 != 0 ? 1e-3 : 1e-5;
  });
  for (const Measurement& one : measure(plans, options).contestants) {
    CAPTURE(one.algorithm, one.unsteady);
    REQUIRE(one.samples == 20);
    REQUIRE(one.min_seconds == 1e-5);
    REQUIRE(one.tries == (one.algorithm == noisy ? 3 : one.algorithm == calmed ? 2 : 1));
    REQUIRE(one.unsteady.empty() == (one.algorithm != noisy));
    REQUIRE(one.median_seconds == (one.algorithm == noisy ? 1e-3 : 1e-5));
  }
  REQUIRE_THAT(measure(plans, options).contestants[0].unsteady,
               ContainsSubstring("scatter") && ContainsSubstring("100 times the minimum"));
}

TEST_CASE("scatter is unsteady above its limit, and not at it") {
  const Device cpu = Device::open("cpu");
  const ConvPlan plan(cpu, problem_of("mb2ic3ih9oc4kh3"));
  const auto unsteady_with = [&](double median, double limit) {
    MeasureOptions options =
        by_script([=](std::string_view, int run) { return run % 4 == 0 ? 1.0 : median; });
    options.scatter_limit = limit;
    options.tries = 1;
    return !measure({&plan, 1}, options).contestants[0].unsteady.empty();
  };
  REQUIRE_FALSE(unsteady_with(1.5, 0.5));
  REQUIRE(unsteady_with(1.5000001, 0.5));
  REQUIRE(unsteady_with(1.5, 0.25));
  REQUIRE_FALSE(unsteady_with(1e6, 1e9));
  REQUIRE(MeasureOptions{}.scatter_limit == 0.5);
}

TEST_CASE("times far above the estimate are unsteady, however well they agree") {
  const Device cpu = Device::open("cpu");
  const ConvPlan plan(cpu, problem_of("mb4ic16ih40oc16kh3ph1"));
  const double estimate = ask(plan.algorithm(), plan.problem(), cpu.info()).estimate_seconds + 5e-6;
  const auto seen = [&](double seconds, double limit) {
    MeasureOptions options = by_script([=](std::string_view, int) { return seconds; });
    options.estimate_limit = limit;
    return measure({&plan, 1}, options).contestants[0];
  };
  const double limit = MeasureOptions{}.estimate_limit;
  REQUIRE(limit == 10);
  REQUIRE(seen(9.9 * estimate, limit).unsteady.empty());
  const Measurement slow = seen(10.1 * estimate, limit);
  REQUIRE_THAT(slow.unsteady, ContainsSubstring("times the estimate of"));
  REQUIRE(slow.tries == 3);
  REQUIRE(seen(10.1 * estimate, std::numeric_limits<double>::infinity()).unsteady.empty());
}

TEST_CASE("what was given up for a disturbance is taken up again") {
  const Device cpu = Device::open("cpu");
  const auto plans = all_plans(cpu, problem_of("mb2ic3ih9oc4kh3"));
  const std::string_view disturbed = plans[0].algorithm().name;
  MeasureOptions options = by_script([&](std::string_view algorithm, int run) {
    return algorithm == disturbed && run < 4 ? 1.0 : 1e-6;
  });
  options.give_up_factor = 4;
  options.estimate_limit = 10;
  const Measurement seen = measure(plans, options).contestants[0];
  REQUIRE(seen.algorithm == disturbed);
  REQUIRE(seen.unsteady.empty());
  // The run before the samples and three samples took a second each. The next three do not, and
  // then there are as many as of the others.
  REQUIRE(seen.tries == 3);
  REQUIRE_FALSE(seen.given_up);
  REQUIRE(seen.samples == 20);
  REQUIRE(seen.median_seconds == 1e-6);
}

TEST_CASE("a problem that memory does not hold is refused with the bytes, before it is allocated") {
  const Device cpu = Device::open("cpu");
  REQUIRE(fits_in_memory(cpu, problem_of("mb2ic3ih9oc4kh3")));
  const ConvProblem huge = problem_of("mb1ic64ih100000iw100000oc1kh1");  // 2.6 TB
  const Support support = fits_in_memory(cpu, huge);
  REQUIRE(support.reason == Reason::too_large);
  REQUIRE_THAT(support.sentence, Matches("measuring needs [0-9]{13,} bytes on cpu; [0-9]+ are "
                                         "free, of which it may use 90 %"));
  // The workspace counts, too.
  const std::size_t all = cpu.info().memory_bytes;
  REQUIRE(fits_in_memory(cpu, problem_of("mb2ic3ih9oc4kh3"), all).reason == Reason::too_large);
  const auto refused = [&](const auto& work) {
    try {
      work();
      FAIL("was not refused");
    } catch (const Error& error) {
      REQUIRE(error.reason() == Reason::too_large);
      REQUIRE_THAT(error.what(), ContainsSubstring("bytes on cpu"));
    }
  };
  const ConvPlan plan(cpu, check(huge), {.algorithm = "cpu.conv.im2col.fp64"});
  refused([&] { measure({&plan, 1}, few); });
  refused([&] { fit_to_memory(cpu, huge); });
}

TEST_CASE("contestants that do not belong together are refused") {
  const Device cpu = Device::open("cpu");
  const auto refused = [&](const std::vector<ConvPlan>& plans, const char* words,
                           const MeasureOptions& options = few) {
    REQUIRE_THROWS_MATCHES(measure(plans, options), Error,
                           MessageMatches(ContainsSubstring(words)));
  };
  const ConvPlan one(cpu, problem_of("mb2ic3ih9oc4kh3"));
  refused({one, ConvPlan(cpu, problem_of("mb2ic3ih9oc5kh3"))}, "one problem");
  refused({one, ConvPlan(cpu, one.problem(), {.activation = Activation::relu})}, "activation");
  refused({ConvPlan(cpu, problem_of("mb0ic3ih9oc4kh3"))}, "batch of 0");
  refused({one}, "samples", {.min_samples = 0});
  refused({one}, "5 to 4 samples; expected", {.min_samples = 5, .max_samples = 4});
  refused({one, ConvPlan(cpu, one.problem(), {.bias = true})}, "with or without a bias");
  refused({one}, "0 tries; expected 1 or more", {.tries = 0});
  ConvProblem reversed = one.problem();
  reversed.x_strides[0] = -reversed.x_strides[0];
  refused({ConvPlan(cpu, reversed)}, "below 0");
  REQUIRE(measure({}, few).contestants.empty());
}

TEST_CASE("a batch is cut to what memory holds") {
  const Device cpu = Device::open("cpu");
  const ConvProblem small = problem_of("mb5ic3ih9oc4kh3");
  REQUIRE(fit_to_memory(cpu, small) == small);
  ConvProblem large = problem_of("mb2ic4ih512oc4kh3");
  large.n = std::int64_t{1} << 28;  // a petabyte
  const ConvProblem cut = fit_to_memory(cpu, large);
  REQUIRE(cut.n > 0);
  REQUIRE(cut.bytes() < static_cast<double>(cpu.info().memory_bytes));
  large = problem_of("mb1ic1048576ih4096oc1kh1");  // 70 TB an image
  REQUIRE_THROWS_MATCHES(fit_to_memory(cpu, large), Error,
                         MessageMatches(ContainsSubstring("not one image")));
}

TEST_CASE("the roofline is the slower of memory and arithmetic") {
  const DeviceCeilings ceilings{.bytes_per_second = 1e12,
                                .fp64_flop_per_second = 1e12,
                                .fp32_flop_per_second = 2e12,
                                .tf32_flop_per_second = 8e12,
                                .fp16_flop_per_second = 16e12};
  ConvProblem dense = problem_of("mb4ic256ih14oc256kh3ph1");
  // In three products of fp16, or by FMAs where those are faster.
  REQUIRE_THAT(roofline_seconds(ceilings, dense, Math::fp32),
               WithinRel(3 * dense.flop() / 16e12, 1e-12));
  DeviceCeilings slow_halves = ceilings;
  slow_halves.fp16_flop_per_second = 5e12;
  REQUIRE_THAT(roofline_seconds(slow_halves, dense, Math::fp32),
               WithinRel(dense.flop() / 2e12, 1e-12));
  REQUIRE_THAT(roofline_seconds(ceilings, dense, Math::fp64),
               WithinRel(dense.flop() / 1e12, 1e-12));
  REQUIRE_THAT(roofline_seconds(ceilings, dense, Math::tf32),
               WithinRel(dense.flop() / 8e12, 1e-12));
  // There is no bf16 here: what is more accurate may serve.
  REQUIRE_THAT(roofline_seconds(ceilings, dense, Math::bf16),
               WithinRel(dense.flop() / 8e12, 1e-12));
  dense.dtype = DType::f16;  // products of stored halves round nothing
  REQUIRE_THAT(roofline_seconds(ceilings, dense, Math::fp32),
               WithinRel(dense.flop() / 16e12, 1e-12));
  dense.dtype = DType::bf16;  // as fast as what is more accurate, where there is no bf16
  REQUIRE_THAT(roofline_seconds(ceilings, dense, Math::fp32),
               WithinRel(dense.flop() / 8e12, 1e-12));
  REQUIRE(roofline_seconds({}, dense, Math::fp32) == 0);  // nothing is known of the device
  // What is pooled is not written.
  ConvProblem first = problem_of("mb100ic1ih86oc4kh7");
  const double bytes = first.bytes();
  first = problem_of("mb100ic1ih86oc4kh7_poolmax2x2");
  REQUIRE(first.bytes() == bytes - 100 * 4 * (80 * 80 - 40 * 40) * 4);
  const ConvProblem thin = problem_of("mb4ic256ih14oc1kh1");
  REQUIRE_THAT(roofline_seconds(ceilings, thin, Math::fp32), WithinRel(thin.bytes() / 1e12, 1e-12));
}

namespace {

/// FNV-1a (Fowler, Noll and Vo).
std::uint64_t checksum(const std::vector<NamedProblem>& problems) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const NamedProblem& one : problems)
    for (const char c : one.name + " " + to_string(one.problem) + "\n")
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

void require_few_channels(const ConvProblem& p) {
  CAPTURE(to_string(p));
  const auto within = [](std::int64_t low, std::int64_t value, std::int64_t high) {
    return low <= value && value <= high;
  };
  REQUIRE((within(1, p.c, 16) && within(1, p.k, 64) && p.groups == 1 && p.pool == Pool::none));
  REQUIRE((within(1, p.r, 11) && within(1, p.s, 11) && p.dilation == Pair{}));
  REQUIRE((within(1, p.stride.h, 2) && within(1, p.stride.w, 2)));
  REQUIRE((p.n >= 1 && p.p() >= 1 && p.q() >= 1 && p.dtype == DType::f32));
  REQUIRE(check(p) == p);
}

}  // namespace

TEST_CASE("few200: the same 200 problems of few channels everywhere") {
  const auto problems = suite("few200");
  REQUIRE(problems.size() == 200);
  std::set<std::string> texts;
  for (const auto& [name, p] : problems) {
    require_few_channels(p);
    REQUIRE((p.h <= 2048 && p.w <= 2048));
    const double image_bytes = 4.0 * static_cast<double>(p.k * p.p() * p.q());
    const double bytes = image_bytes * static_cast<double>(p.n);
    REQUIRE(((bytes <= 1e9 && bytes + image_bytes > 1e9) || p.n == 1));
    texts.insert(to_string(p));
  }
  REQUIRE(texts.size() == 200);
  const auto count = [&](const auto& is) {
    return std::count_if(problems.begin(), problems.end(),
                         [&](const NamedProblem& one) { return is(one.problem); });
  };
  // Enough of each kind to say something.
  REQUIRE(count([](const ConvProblem& p) { return p.stride.w == 2; }) > 50);
  REQUIRE(count([](const ConvProblem& p) { return p.q() % 4 != 0; }) > 50);
  REQUIRE(count([](const ConvProblem& p) { return p.w > 512; }) > 20);
  REQUIRE(count([](const ConvProblem& p) { return p.w < 32; }) > 20);
  REQUIRE(count([](const ConvProblem& p) { return p.n < 100; }) > 20);
  REQUIRE(count([](const ConvProblem& p) { return p.c <= 3; }) > 20);
  REQUIRE(count([](const ConvProblem& p) { return p.padding.left != p.padding.right; }) > 20);
  REQUIRE(checksum(problems) == 0x3d06c6883bdf606u);
}

TEST_CASE("few_special: what is special is there") {
  const auto problems = suite("few_special");
  const auto any = [&](const auto& is) {
    return std::any_of(problems.begin(), problems.end(),
                       [&](const NamedProblem& one) { return is(one.problem); });
  };
  for (const NamedProblem& one : problems) require_few_channels(one.problem);
  REQUIRE(any([](const ConvProblem& p) {
    return p.c == 1 && p.k == 1 && p.h == 16384 && p.w == 16384 && p.r == 11 && p.s == 11;
  }));
  REQUIRE(any([](const ConvProblem& p) { return p.n > 1 && p.n < 8; }));
  REQUIRE(any([](const ConvProblem& p) { return p.w % 2 == 1 && p.q() % 2 == 1; }));
}

TEST_CASE("suites are problems with names") {
  for (const std::string_view name : suite_names) {
    const auto problems = suite(name, 17);
    REQUIRE_FALSE(problems.empty());
    for (const NamedProblem& one : problems) {
      REQUIRE_FALSE(one.name.empty());
      REQUIRE(one.problem.n == 17);
    }
  }
  REQUIRE(suite("four").size() == 4);
  REQUIRE(suite("four")[0].problem.n == 10000);
  REQUIRE(suite("resnet50")[0].problem.n == 128);
  REQUIRE_THROWS_MATCHES(suite("five", 1), Error,
                         MessageMatches(ContainsSubstring("four, resnet50")));
}
