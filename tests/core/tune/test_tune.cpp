// Tuning: times come back and choose plans, and those that cannot be trusted do not.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "support/devices.hpp"
#include "support/written_to.hpp"
#include "tune_case.hpp"

using namespace plumb;
using namespace plumb_test::tuning;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// A cache in which one algorithm of the CPU takes a nanosecond and all others a second.
void write_times(const fs::path& path, const std::string& tuned, const std::string& fastest) {
  std::istringstream lines(tuned.substr(0, tuned.rfind("end ")));
  std::string body;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("seconds ")) {
      const std::string name = line.substr(line.rfind(' ') + 1);
      line = (name == fastest ? "seconds 1e-09 " : "seconds 1 ") + name;
    }
    body += line + "\n";
  }
  write(path, sealed(body, 1));
}

/// The options of `quick` with the usual limits and a clock: what `disturbed` names takes ten
/// microseconds in one of three samples and a hundred times as long in the others, everything else
/// a millisecond.
TuneOptions beside_a_neighbour(std::function<bool(std::string_view)> disturbed) {
  TuneOptions options = quick;
  options.measure.scatter_limit = MeasureOptions{}.scatter_limit;
  const auto runs = std::make_shared<std::map<std::string, int>>();
  options.measure.clock = [=](std::string_view algorithm, double) {
    if (!disturbed(algorithm)) return 1e-3;
    return ++(*runs)[std::string(algorithm)] % 3 == 0 ? 1e-5 : 1e-3;
  };
  return options;
}

}  // namespace

TEST_CASE("every algorithm is timed or says why not, and the times come back") {
  const CacheFolder cache;
  for (const Device& device : plumb_test::all_devices()) {
    fs::remove(cache.file());
    REQUIRE(tuned_times(device, small()).times.empty());
    const TuneResult result = tune(device, small(), quick);
    REQUIRE(result.cache_path == cache.file());
    REQUIRE(result.cache_sentence.empty());
    REQUIRE(result.algorithms.size() == conv_algorithms(device).size());
    const TunedTimes tuned = tuned_times(device, small());
    REQUIRE(tuned.sentence.empty());
    std::size_t timed = 0;
    for (const TunedAlgorithm& one : result.algorithms) {
      CAPTURE(one.algorithm, one.measurement.failure);
      REQUIRE(one.support.sentence.empty() == static_cast<bool>(one.support));
      if (!one.support) continue;
      REQUIRE(one.measurement.algorithm == one.algorithm);
      REQUIRE(one.measurement.median_seconds > 0);
      REQUIRE(tuned.times[timed].algorithm == one.algorithm);
      const double kept = tuned.times[timed++].seconds, seen = one.measurement.median_seconds;
      REQUIRE(std::abs(kept - seen) < 1e-5 * seen);
    }
    REQUIRE(timed == tuned.times.size());
    // The plan takes the fastest of those that its options allow.
    const auto candidates = explain(device, small());
    for (const ConvCandidate& candidate : candidates) {
      CAPTURE(candidate.algorithm);
      // What the options rule out has been timed all the same where it could run.
      const bool ruled_out = candidate.support.reason == Reason::math;
      REQUIRE((candidate.support || ruled_out) == candidate.measured_seconds.has_value());
      if (candidate.support)
        REQUIRE(*candidate.measured_seconds >= *chosen(candidates).measured_seconds);
    }
    REQUIRE(tune_cache_report(device).problems == 1);
    // Another problem, type or order in memory is not tuned by that.
    ConvProblem other = small();
    other.dtype = DType::f64;
    REQUIRE_THAT(tuned_times(device, other).sentence, ContainsSubstring("not tuned on"));
    other = validation_case("", small(), Placement::nhwc).problem;
    REQUIRE(tuned_times(device, other).times.empty());
  }
}

TEST_CASE("plans take the tuned choice that their options allow") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  tune(cpu, small(), quick);
  const std::string tuned = content(cache.file());
  const auto all = explain(cpu, small(), {.math = Math::fp16});
  int allowed = 0;
  for (const ConvCandidate& candidate : all) {
    if (!candidate.support) continue;
    ++allowed;
    const std::string path = cache.folder() / ("fast-" + std::string(candidate.algorithm));
    write_times(path, tuned, std::string(candidate.algorithm));
    const Setting setting("PLUMB_TUNE_CACHE", path.c_str());
    REQUIRE(ConvPlan(cpu, small(), {.math = Math::fp16}).algorithm().name == candidate.algorithm);
    // What the options rule out is not chosen, however fast.
    const auto strict = explain(cpu, small(), {.math = Math::fp64});
    REQUIRE(chosen(strict).error_class == Math::fp64);
    ConvOptions options;
    options.workspace_limit_bytes = candidate.workspace_bytes > 0 ? candidate.workspace_bytes - 1
                                                                  : options.workspace_limit_bytes;
    for (const ConvCandidate& other : explain(cpu, small(), options))
      if (other.chosen) REQUIRE(other.workspace_bytes <= options.workspace_limit_bytes);
  }
  REQUIRE(allowed > 1);
}

TEST_CASE("times that leave an algorithm out do not choose") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  TuneOptions fp64_alone = quick;
  fp64_alone.math = Math::fp64;
  const std::string by_estimate(ConvPlan(cpu, small()).algorithm().name);
  tune(cpu, small(), fp64_alone);
  const auto candidates = explain(cpu, small());
  REQUIRE(chosen(candidates).algorithm == by_estimate);
  REQUIRE_FALSE(chosen(candidates).measured_seconds);
  REQUIRE(chosen(explain(cpu, small(), {.math = Math::fp64})).measured_seconds);
  // The rest is added to what is there.
  tune(cpu, small(), quick);
  REQUIRE(chosen(explain(cpu, small())).measured_seconds);
}

TEST_CASE("unsteady times are not kept, and what is kept beside them does not choose") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  const std::string by_estimate(ConvPlan(cpu, small()).algorithm().name);
  const std::string_view steady = "cpu.conv.im2col.fp64";
  REQUIRE(by_estimate != steady);
  const TuneResult result =
      tune(cpu, small(), beside_a_neighbour([&](std::string_view name) { return name != steady; }));
  REQUIRE(result.cache_path == cache.file());
  for (const TunedAlgorithm& one : result.algorithms) {
    CAPTURE(one.algorithm, one.measurement.unsteady);
    if (one.support) REQUIRE(one.measurement.unsteady.empty() == (one.algorithm == steady));
  }
  REQUIRE(tuned_times(cpu, small()).times == std::vector<TunedTime>{{std::string(steady), 1e-3}});
  // Today's only time is that of the one that nothing disturbed; it is not the fastest for that.
  const auto candidates = explain(cpu, small());
  REQUIRE(chosen(candidates).algorithm == by_estimate);
  REQUIRE_FALSE(chosen(candidates).measured_seconds);
  // Tuned again on a quiet machine, all have a time, and the times choose.
  tune(cpu, small(), beside_a_neighbour([](std::string_view) { return false; }));
  REQUIRE(chosen(explain(cpu, small())).measured_seconds == 1e-3);
}

TEST_CASE("where no time is steady, the cache stays as it was") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  const auto all = beside_a_neighbour([](std::string_view) { return true; });
  const TuneResult nothing = tune(cpu, small(), all);
  REQUIRE(nothing.cache_path.empty());
  REQUIRE_THAT(nothing.cache_sentence, ContainsSubstring("no time of g1mb2ic3"));
  REQUIRE_FALSE(fs::exists(cache.file()));
  tune(cpu, small(), quick);
  const std::string before = content(cache.file());
  tune(cpu, small(), all);
  REQUIRE(content(cache.file()) == before);
}

TEST_CASE("conv plans anew after tuning") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  Queue queue(cpu);
  const ConvProblem p = check(small());
  const Tensor x(cpu, p.dtype, p.x_extents()), w(cpu, p.dtype, p.w_extents());
  const Tensor y(cpu, p.dtype, p.y_extents());
  std::fill_n(x.data_as<float>(), element_count(p.x_extents()), 1.0f);
  std::fill_n(w.data_as<float>(), element_count(p.w_extents()), 1.0f);
  const ConvTensors tensors{.x = x, .w = w, .y = y};
  const auto verbose_lines = [&] {
    return plumb_test::written_to(stderr, [&] {
      const Setting verbose("PLUMB_VERBOSE", "1");
      conv(queue, tensors);
    });
  };
  REQUIRE_THAT(verbose_lines(), ContainsSubstring("not tuned on"));
  REQUIRE(verbose_lines().empty());
  tune(cpu, small(), quick);
  REQUIRE_THAT(verbose_lines(), ContainsSubstring("s tuned"));
  REQUIRE(y.data_as<float>()[0] == 27);
}

TEST_CASE("what cannot be tuned is refused with each one's reason") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  REQUIRE_THROWS_MATCHES(tune(cpu, problem_of("mb0ic3ih9oc4kh3"), quick), Error,
                         MessageMatches(ContainsSubstring("batch of 0")));
  try {
    tune(cpu, problem_of("mb1ic64ih100000iw100000oc1kh1"), quick);
    FAIL("2.6 TB were tuned");
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::unsupported);
    REQUIRE(error.reason() == Reason::too_large);
    REQUIRE_THAT(error.what(), ContainsSubstring("bytes on cpu"));
  }
  REQUIRE_FALSE(fs::exists(cache.file()));
}
