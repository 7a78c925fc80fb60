// An algorithm that sums in fp16, on the CPU: the four tiers pass it where it says so, and catch it
// where it says that it sums in fp32.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "support/devices.hpp"

using namespace plumb;

namespace {

/// One output: each product is formed of fp16 operands and each sum is rounded to fp16.
Half half_sum(const ConvProblem& problem, const ConstTensorView& x, const ConstTensorView& w,
              const Extents& y) {
  const auto half = [](double value) { return Half(static_cast<float>(value)); };
  const auto as_double = [](Half value) { return double{static_cast<float>(value)}; };
  const std::int64_t group_c = problem.c / problem.groups, group_k = problem.k / problem.groups;
  const Strides &xs = problem.x_strides, &ws = problem.w_strides;
  Half sum;
  for (std::int64_t c = 0; c < group_c; ++c)
    for (std::int64_t r = 0; r < problem.r; ++r)
      for (std::int64_t s = 0; s < problem.s; ++s) {
        const std::int64_t row =
            y[2] * problem.stride.h + r * problem.dilation.h - problem.padding.top;
        const std::int64_t column =
            y[3] * problem.stride.w + s * problem.dilation.w - problem.padding.left;
        if (row < 0 || row >= problem.h || column < 0 || column >= problem.w) continue;
        const std::int64_t channel = y[1] / group_k * group_c + c;
        const Half pixel =
            half(load_element(x, y[0] * xs[0] + channel * xs[1] + row * xs[2] + column * xs[3]));
        const Half tap = half(load_element(w, y[1] * ws[0] + c * ws[1] + r * ws[2] + s * ws[3]));
        sum = half(as_double(pixel) * as_double(tap) + as_double(sum));
      }
  return sum;
}

void launch(const ConvLaunch& call) {
  const ConvProblem& problem = call.problem;
  const ConstTensorView x(call.x, problem.dtype, problem.x_extents(), host, problem.x_strides);
  const ConstTensorView w(call.w, problem.dtype, problem.w_extents(), host, problem.w_strides);
  const ConstTensorView bias(call.bias, problem.dtype, {problem.k}, host, {1});
  const TensorView y(call.y, problem.dtype, problem.y_extents(), host, problem.y_strides);
  const Strides& strides = problem.y_strides;
  for (std::int64_t n = 0; n < problem.n; ++n)
    for (std::int64_t k = 0; k < problem.k; ++k)
      for (std::int64_t p = 0; p < problem.p(); ++p)
        for (std::int64_t q = 0; q < problem.q(); ++q) {
          float value = static_cast<float>(half_sum(problem, x, w, {n, k, p, q}));
          if (call.bias) value += static_cast<float>(load_element(bias, k));
          if (call.activation == Activation::relu && value < 0) value = 0;
          store_element(y, n * strides[0] + k * strides[1] + p * strides[2] + q * strides[3],
                        value);
        }
}

constexpr ConvAlgorithm summing_in_half(Accumulator claimed) {
  return {
      .name = "cpu.conv.half_sums.fp16",
      .numerics = {.operand = Operand::fp16, .accumulator = claimed},
      .plan = [](const ConvProblem& problem, const DeviceInfo&) -> PlanResult {
        if (problem.dtype == DType::f32 || problem.dtype == DType::f16)
          return {.estimate_seconds = 1};
        return {{Reason::dtype, "expected f32 or f16"}};
      },
      .launch = without_plan<launch>,
  };
}

std::vector<ValidationRecord> verdicts(Accumulator claimed, const ValidationCase& test) {
  const ConvAlgorithm algorithm = summing_in_half(claimed);
  const ConvAlgorithm* const only = &algorithm;
  return validate(Device::open("cpu"), {&only, 1}, test);
}

std::vector<ValidationCase> small_cases() {
  std::vector<ValidationCase> cases = validation_corpus({.quick = true});
  std::erase_if(cases, [](const ValidationCase& test) {
    const bool narrow = test.problem.dtype == DType::f32 || test.problem.dtype == DType::f16;
    return !narrow || test.problem.flop() > 5e4;
  });
  return cases;
}

}  // namespace

TEST_CASE("sums in fp16 pass the four tiers where they are claimed", "[validation]") {
  std::vector<ValidationCase> cases = small_cases();
  REQUIRE(cases.size() > 25);
  // Past 2,047 terms nothing is promised; outputs without a tap are zero all the same.
  cases.push_back(
      validation_case("", parse_problem("mb1ic300ih1oc1oh7kh3ph4").problem, Placement::nchw));
  for (const ValidationCase& test : cases)
    for (const ValidationRecord& record : verdicts(Accumulator::fp16_fma, test)) {
      CAPTURE(record.problem, to_string(record.dtype), to_string(record.tier), record.sentence);
      CHECK(record.verdict == Verdict::pass);
    }
}

TEST_CASE("sums in fp16 are caught where sums in fp32 are claimed", "[validation]") {
  std::set<Tier> caught;
  for (const ValidationCase& test : small_cases())
    for (const ValidationRecord& record : verdicts(Accumulator::fp32_fma, test))
      if (record.verdict == Verdict::fail) caught.insert(record.tier);
  CHECK(caught == std::set{Tier::bounded, Tier::attested});
}
