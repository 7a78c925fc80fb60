// Phases of backward data as branches of a queue, whose work waits until they are joined.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "fake_count.hpp"
#include "fault.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

ConvProblem data_problem(const char* text) {
  ConvProblem problem = parse_problem(text).problem;
  problem.direction = Direction::backward_data;
  return check(problem);
}

/// The first tier that fails, or nothing.
std::string failed_tier(const char* text, Placement placement) {
  const Device fake = Device::open("cuda");
  const ConvAlgorithm* works = nullptr;
  for (const ConvAlgorithm* algorithm : conv_algorithms(fake))
    if (algorithm->name == "cuda.conv.fake.fp32") works = algorithm;
  REQUIRE(works);
  ValidationCase test = validation_case("", data_problem(text), placement);
  test.bias = true;
  for (const ValidationRecord& record : validate(fake, {&works, 1}, test, {.seed = 5})) {
    REQUIRE(record.verdict != Verdict::unsupported);
    if (record.verdict == Verdict::fail) return std::string(to_string(record.tier));
  }
  return "";
}

/// Of four phases and more, which take long enough, and too many filters to be joined.
constexpr const char* texts[] = {
    "mb4ic72ih17iw16oc48kh3kw3sh2sw2ph1pw1",
    "mb4ic48ih12iw13oc64kh5kw4sh3sw2ph1pw1",
    "mb2ic40id9ih8iw10oc32kd3kh3kw3sd2sh2sw2pd1ph1pw1",
    "mb4ic72ih14iw13oc48kh3kw3sh2sw2ph1pw1_padreflect",
};

}  // namespace

TEST_CASE("branches: phases take nothing from each other") {
  const Device fake = Device::open("cuda");  // loads what counts
  for (const char* text : texts)
    for (const Placement placement : {Placement::nchw, Placement::nhwc, Placement::strided}) {
      CAPTURE(text);
      const int before = fake_count("plumb_fake_forks");
      CHECK(failed_tier(text, placement) == "");
      CHECK(fake_count("plumb_fake_forks") > before);
    }
}

TEST_CASE("branches: one that is not joined is noticed", "[faults]") {
  const Playing playing{"lost_branch"};
  for (const char* text : texts) {
    CAPTURE(text);
    CHECK(failed_tier(text, Placement::nhwc) != "");
  }
}

TEST_CASE("branches: short phases are launched one after the other") {
  const Device fake = Device::open("cuda");
  const int before = fake_count("plumb_fake_forks");
  CHECK(failed_tier("mb1ic2ih5iw5oc2kh3kw3sh2sw2ph1pw1", Placement::nhwc) == "");
  CHECK(fake_count("plumb_fake_forks") == before);
}
