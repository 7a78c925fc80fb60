// Every algorithm of every device against the oracle: generated from the lists, written once.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "plumb/backend.hpp"
#include "support/devices.hpp"
#include "support/sanitized.hpp"

using namespace plumb;

namespace {

/// An algorithm that accepts fewer problems of the corpus has not been validated.
constexpr int min_problems = 25;

struct Tally {
  int run = 0, failed = 0;
  int other_processor = 0;  ///< problems that need instructions which this processor lacks
  int outside = 0;          ///< of an algorithm that promises nothing
  double max_error_over_bound = 0;
};

bool promises(const Device& device, std::string_view name) {
  for (const ConvAlgorithm* algorithm : conv_algorithms(device))
    if (algorithm->name == name) return algorithm->numerics.bounded;
  return true;
}

std::map<std::string, Tally> validate_all(const Device& device,
                                          const std::vector<ValidationCase>& cases) {
  std::map<std::string, Tally> tallies;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device))
    tallies[std::string(algorithm->name)] = {};
  for (const ValidationCase& test : cases)
    for (const ValidationRecord& record : validate(device, conv_algorithms(device), test)) {
      if (record.verdict == Verdict::unsupported) {
        CAPTURE(record.algorithm, record.problem);
        CHECK(record.reason != Reason::none);
        CHECK_FALSE(record.sentence.empty());
        tallies[record.algorithm].other_processor +=
            device.id().backend == "cpu" && record.reason == Reason::device_limit;
        continue;
      }
      Tally& tally = tallies[record.algorithm];
      tally.run += record.tier == Tier::exact;
      tally.max_error_over_bound =
          std::max(tally.max_error_over_bound, record.max_error_over_bound);
      if (record.verdict == Verdict::pass) continue;
      if (record.verdict == Verdict::outside) {
        CHECK_FALSE(promises(device, record.algorithm));
        ++tally.outside;
        continue;
      }
      ++tally.failed;
      FAIL_CHECK(record.algorithm << " on " << record.problem << " " << to_string(record.dtype)
                                  << " " << to_string(record.placement) << ", "
                                  << to_string(record.tier) << ": " << record.sentence);
    }
  return tallies;
}

/// What is ten times slower under a sanitizer: every fourth problem of each dtype and direction,
/// but of the few gradients of filters two of three.
void thin_out(std::vector<ValidationCase>& cases) {
  std::map<std::pair<DType, Direction>, int> drawn;
  std::erase_if(cases, [&](const ValidationCase& one) {
    const Direction direction = one.problem.direction;
    const int turn = drawn[{one.problem.dtype, direction}]++;
    return direction == Direction::backward_weights ? turn % 3 == 2 : turn % 4 != 0;
  });
}

}  // namespace

TEST_CASE("every algorithm passes the five tiers", "[validation][long]") {
  auto cases = validation_corpus({.quick = true});
  if (plumb_test::is_sanitized) thin_out(cases);
  int validated = 0;
  for (const Device& device : plumb_test::all_devices())
    for (const auto& [name, tally] : validate_all(device, cases)) {
      CAPTURE(name, tally.run, tally.failed);
      if (tally.run < min_problems && tally.other_processor > 0)
        WARN(name << " needs another processor: " << tally.other_processor << " problems not run");
      CHECK(tally.run + tally.other_processor >= min_problems);
      if (tally.outside > 0)
        WARN(name << " promises no bound: " << tally.outside << " verdicts outside, error at most "
                  << tally.max_error_over_bound << " of the bound of fp32 FMA");
      validated += tally.run;
    }
  REQUIRE(validated > 0);
}

TEST_CASE("the corpus has every kind of problem") {
  for (const bool quick : {true, false}) {
    const auto cases = validation_corpus({.quick = quick});
    const auto any = [&](const auto& has) { return std::any_of(cases.begin(), cases.end(), has); };
    REQUIRE(any([](const auto& c) { return c.problem.n == 0; }));
    REQUIRE(
        any([](const auto& c) { return c.problem.groups > 1 && c.problem.groups < c.problem.c; }));
    REQUIRE(any([](const auto& c) { return c.problem.groups == c.problem.c && c.problem.c > 1; }));
    REQUIRE(any([](const auto& c) { return c.problem.padding.top != c.problem.padding.bottom; }));
    REQUIRE(any([](const auto& c) { return c.problem.stride.h > c.problem.r; }));
    REQUIRE(
        any([](const auto& c) { return c.problem.dilation.h > 1 && c.problem.padding.top > 0; }));
    REQUIRE(any([](const auto& c) {
      return c.problem.r == c.problem.h && c.problem.s == c.problem.w && c.problem.r > 1;
    }));
    REQUIRE(any([](const auto& c) {
      return c.problem.pool == Pool::max_2x2 && c.problem.p() % 2 == 1 && c.problem.q() % 2 == 0 &&
             c.problem.padding.top > 0;
    }));
    REQUIRE(any([](const auto& c) {
      return c.problem.pool == Pool::max_2x2 && c.problem.c == 1 && c.bias &&
             c.activation == Activation::relu && c.problem.dtype == DType::f32;
    }));
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
      REQUIRE(any([&](const auto& c) { return c.problem.dtype == dtype; }));
    for (const Placement placement : {Placement::nchw, Placement::nhwc, Placement::strided})
      REQUIRE(any([&](const auto& c) { return c.placement == placement; }));
    for (const Direction direction :
         {Direction::forward, Direction::backward_data, Direction::backward_weights}) {
      const auto in = [&](const auto& has) {
        return any([&](const auto& c) { return c.problem.direction == direction && has(c); });
      };
      REQUIRE(in([](const auto& c) { return c.problem.stride.h > 1 && c.problem.dilation.h > 1; }));
      REQUIRE(in([](const auto& c) { return c.problem.has_depth() && c.accumulate; }));
      REQUIRE(in([](const auto& c) { return c.problem.boundary.h == Boundary::periodic; }));
      REQUIRE(in([](const auto& c) { return c.problem.groups > 1 && c.bias; }));
      REQUIRE(in([&](const auto& c) {
        return c.relu_mask == (direction != Direction::forward) && c.problem.dtype == DType::bf16;
      }));
    }
    for (const bool with : {true, false}) {
      REQUIRE(any([&](const auto& c) { return c.bias == with; }));
      REQUIRE(any([&](const auto& c) { return (c.activation == Activation::relu) == with; }));
    }
  }
}

TEST_CASE("the corpus is the same for the same seed and another for another") {
  const auto texts = [](std::uint64_t seed) {
    std::vector<std::string> all;
    for (const ValidationCase& test : validation_corpus({.seed = seed, .quick = true}))
      all.push_back(to_string(test.problem));
    return all;
  };
  REQUIRE(texts(5) == texts(5));
  REQUIRE(texts(5) != texts(6));
}

TEST_CASE("a large problem is judged by borders, samples and a checksum") {
  // The same problem under a limit that makes it large: a fault in its middle must still show.
  const Device cpu = Device::open("cpu");
  const ValidationCase test =
      validation_case("", parse_problem("mb4ic3ih40oc8kh3").problem, Placement::nchw);
  const auto algorithms = conv_algorithms(cpu);
  for (const ValidationRecord& record : validate(cpu, algorithms, test, {.full_check_limit = 1000}))
    if (record.verdict != Verdict::unsupported) {
      CAPTURE(record.algorithm, record.sentence);
      CHECK(record.verdict == Verdict::pass);
    }
}

TEST_CASE("a case that memory does not hold is refused with the bytes, by each that would run it") {
  const Device cpu = Device::open("cpu");
  const ValidationCase huge = validation_case(
      "huge", parse_problem("mb1ic64ih100000iw100000oc1kh1").problem, Placement::nchw);
  int too_large = 0;
  const auto algorithms = conv_algorithms(cpu);
  const auto records = validate(cpu, algorithms, huge);
  REQUIRE(records.size() == algorithms.size());
  for (const ValidationRecord& record : records) {
    CAPTURE(record.algorithm, record.sentence);
    REQUIRE(record.verdict == Verdict::unsupported);
    REQUIRE(record.name == "huge");
    if (!record.sentence.starts_with("validating needs ")) continue;
    ++too_large;
    REQUIRE(record.reason == Reason::too_large);
    REQUIRE(record.sentence.find(" are free") != std::string::npos);
  }
  REQUIRE(too_large > 0);
}

#ifdef PLUMB_CUDA_KERNEL_STEMS
TEST_CASE("every kernel file is behind a name in the list") {
  const LoadedBackend& loaded = load_backend("cuda");
  REQUIRE(loaded.backend);
  const auto algorithms = loaded.backend->conv_algorithms();
  std::istringstream stems(PLUMB_CUDA_KERNEL_STEMS);
  int count = 0;
  for (std::string stem; stems >> stem; ++count) {
    CAPTURE(stem);
    CHECK(std::any_of(algorithms.begin(), algorithms.end(), [&](const ConvAlgorithm* algorithm) {
      return algorithm->name.starts_with("cuda.conv." + stem + ".");
    }));
  }
  REQUIRE(count > 0);
}
#endif

TEST_CASE("no two algorithms of a device have the same name") {
  for (const Device& device : plumb_test::all_devices()) {
    std::set<std::string_view> names;
    for (const ConvAlgorithm* algorithm : conv_algorithms(device))
      CHECK(names.insert(algorithm->name).second);
    REQUIRE_FALSE(names.empty());
  }
}
