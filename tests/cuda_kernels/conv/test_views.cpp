// Inputs whose strides are negative, zero or smaller than what they step over, through every
// algorithm of the GPU that takes them.
#ifdef PLUMB_TEST_CUDA
#include "plumb/problem_text.hpp"
#include "plumb/validate.hpp"
#include "support/devices.hpp"

using namespace plumb;

namespace {

constexpr const char* problems[] = {"mb2ic3ih20iw23oc8kh5ph2", "mb3ic1ih40iw43oc4kh7",
                                    "mb2ic16ih12oc24kh3ph1",   "mb2ic4ih18oc16kh3sh2ph1",
                                    "mb2ic8ih9oc12kh1",        "g2mb2ic6ih11oc8kh3ph1"};

/// Runs of the exact tier, all of which must pass; how many there were.
int judge(Validator& validator, const Device& device, const ConvProblem& problem) {
  int runs = 0;
  const ValidationCase test = validation_case("views", problem, Placement::views);
  for (const ValidationRecord& record :
       validator(conv_algorithms(device), test, {.tiers = {Tier::exact}})) {
    CAPTURE(record.algorithm, record.problem, to_string(problem.x_strides), record.sentence);
    CHECK(record.verdict != Verdict::fail);
    runs += record.verdict == Verdict::pass;
  }
  return runs;
}

}  // namespace

TEST_CASE("cuda: every algorithm reads inputs that are mirrored along any dimensions") {
  const Device device = plumb_test::device_or_skip("cuda");
  Validator validator(device);
  for (const char* text : problems)
    for (const DType dtype : {DType::f32, DType::f16})
      for (unsigned mirrored = 1; mirrored < 16; ++mirrored) {
        ConvProblem problem = parse_problem(text).problem;
        problem.dtype = dtype;
        problem.x_strides = dense_strides(problem.x_extents());
        for (int i = 0; i < 4; ++i)
          if (mirrored >> i & 1) problem.x_strides[i] = -problem.x_strides[i];
        CHECK(judge(validator, device, problem) >= 10);
      }
}

TEST_CASE("cuda: every algorithm reads inputs that are broadcast or overlap") {
  const Device device = plumb_test::device_or_skip("cuda");
  Validator validator(device);
  for (const char* text : problems)
    for (int dimension = 0; dimension < 4; ++dimension)
      for (const std::int64_t stride : {0, 1, 3, -2}) {
        ConvProblem problem = parse_problem(text).problem;
        problem.x_strides = dense_strides(problem.x_extents());
        problem.x_strides[dimension] = stride;
        CHECK(judge(validator, device, problem) >= 10);
      }
}

// With one column the rows are the pixels that follow on each other, however far apart they lie.
TEST_CASE("cuda: every algorithm reads single columns whose rows lie apart") {
  const Device device = plumb_test::device_or_skip("cuda");
  Validator validator(device);
  for (const char* text :
       {"mb1ic1ih3iw1oc1kh2kw1", "mb4ic7ih6iw1oc11kh3kw1dh1", "mb2ic2ih9iw1oc3kh1"})
    for (const std::int64_t apart : {2, 4, 16}) {
      ConvProblem problem = parse_problem(text).problem;
      problem.x_strides = dense_strides(problem.x_extents());
      for (int i = 0; i < 3; ++i) problem.x_strides[i] *= apart;
      CHECK(judge(validator, device, problem) >= 10);
    }
}
#endif
