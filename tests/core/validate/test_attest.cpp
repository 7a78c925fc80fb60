// Attestation tells arithmetic apart by results alone: a plain convolution in each arithmetic is
// told for what it is, passes where it claims that, and fails where it claims another.
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <stdexcept>

#include "plumb/plumb.hpp"
#include "plumb/validate.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;

namespace {

double rounded_to_bits(double value, int bits) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

double truncated_to_tf32(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>(bits & 0xffffe000u);
}

double to_fp16(double value) {
  if (std::abs(value) >= 65520) return std::copysign(INFINITY, value);
  return rounded_to_bits(value, 11);
}

/// How one kernel rounds: its operands, and its sum after each term.
template <Arithmetic arithmetic>
double operand(double value) {
  switch (arithmetic) {
    case Arithmetic::tf32_rounded: return rounded_to_bits(value, 11);
    case Arithmetic::tf32_truncated: return truncated_to_tf32(value);
    case Arithmetic::fp16:
    case Arithmetic::fp16_accumulate: return to_fp16(value);
    case Arithmetic::bf16: return rounded_to_bits(value, 8);
    case Arithmetic::unknown: return rounded_to_bits(value, 12);
    default: return value;
  }
}
template <Arithmetic arithmetic>
double sum(double value) {
  if (arithmetic == Arithmetic::fp64) return value;
  return arithmetic == Arithmetic::fp16_accumulate ? to_fp16(value) : static_cast<float>(value);
}

template <Arithmetic arithmetic>
void launch(const ConvLaunch& launch) {
  const ConvProblem& p = launch.problem;
  const ConstTensorView x(launch.x, p.dtype, p.x_extents(), host, p.x_strides);
  const ConstTensorView w(launch.w, p.dtype, p.w_extents(), host, p.w_strides);
  const TensorView y(launch.y, p.dtype, p.y_extents(), host, p.y_strides);
  for (std::int64_t n = 0; n < p.n; ++n)
    for (std::int64_t k = 0; k < p.k; ++k)
      for (std::int64_t i = 0; i < p.p(); ++i)
        for (std::int64_t j = 0; j < p.q(); ++j) {
          double total = 0;
          for (std::int64_t c = 0; c < p.c; ++c)
            for (std::int64_t r = 0; r < p.r; ++r)
              for (std::int64_t s = 0; s < p.s; ++s) {
                const auto at = [](const ConstTensorView& view, const Dims& index) {
                  std::int64_t offset = 0;
                  for (int d = 0; d < 4; ++d) offset += index[d] * view.stride(d);
                  return operand<arithmetic>(load_element(view, offset));
                };
                total = sum<arithmetic>(total + at(x, {n, c, i + r, j + s}) * at(w, {k, c, r, s}));
              }
          store_element(y, n * y.stride(0) + k * y.stride(1) + i * y.stride(2) + j * y.stride(3),
                        total);
        }
}

template <Arithmetic arithmetic>
ConvAlgorithm algorithm(const Numerics& claim) {
  return {
      .name = "cpu.conv.plain",
      .numerics = claim,
      .plan = [](const ConvProblem&, const DeviceInfo&) -> PlanResult {
        return {.estimate_seconds = 1.0};
      },
      .launch = without_plan<launch<arithmetic>>,
  };
}

ConvProblem plain_problem(DType dtype) {
  ConvProblem problem;
  problem.c = 3, problem.h = 5, problem.w = 5, problem.k = 2, problem.r = 3, problem.s = 3;
  problem.dtype = dtype;
  return problem;
}

ValidationRecord attested(const ConvAlgorithm& one, const ConvProblem& problem) {
  const ConvAlgorithm* judged = &one;
  const auto records =
      validate(Device::open("cpu"), {&judged, 1}, validation_case("", problem, Placement::views),
               {.tiers = {Tier::attested}, .guard = GuardPages::none});
  REQUIRE(records.size() == 1);
  return records[0];
}

template <Arithmetic arithmetic>
void require_told(DType dtype, const Numerics& claim) {
  CAPTURE(to_string(arithmetic), to_string(dtype));
  const ValidationRecord seen = attested(algorithm<arithmetic>(claim), plain_problem(dtype));
  CAPTURE(seen.sentence);
  CHECK(to_string(seen.arithmetic) == to_string(arithmetic));
  CHECK(seen.verdict == Verdict::pass);
}

/// Claims more than it does.
template <Arithmetic arithmetic>
void require_caught(DType dtype, const Numerics& claim, Arithmetic told) {
  CAPTURE(to_string(arithmetic), to_string(dtype));
  const ValidationRecord seen = attested(algorithm<arithmetic>(claim), plain_problem(dtype));
  CHECK(to_string(seen.arithmetic) == to_string(told));
  CHECK(seen.verdict == Verdict::fail);
  CHECK_THAT(seen.sentence, ContainsSubstring(std::string(to_string(told))));
  Numerics without = claim;
  without.bounded = false;
  CHECK(attested(algorithm<arithmetic>(without), plain_problem(dtype)).verdict == Verdict::outside);
}

constexpr Accumulator tensor_core = Accumulator::tensor_core_fp32;

}  // namespace

TEST_CASE("attestation: each arithmetic is told by its results") {
  require_told<Arithmetic::fp64>(DType::f64, {Operand::fp64, Accumulator::fp64_fma});
  require_told<Arithmetic::fp32>(DType::f32, {});
  require_told<Arithmetic::tf32_rounded>(DType::f32, {Operand::tf32_rounded, tensor_core});
  require_told<Arithmetic::tf32_truncated>(DType::f32, {Operand::tf32_truncated, tensor_core});
  require_told<Arithmetic::fp16>(DType::f32, {Operand::fp16, tensor_core});
  require_told<Arithmetic::bf16>(DType::f32, {Operand::bf16, tensor_core});
  require_told<Arithmetic::bf16>(DType::f16, {Operand::bf16, tensor_core});
  require_told<Arithmetic::fp16>(DType::bf16, {Operand::fp16, tensor_core});
  require_told<Arithmetic::fp32>(DType::f16, {Operand::fp16, tensor_core});
  require_told<Arithmetic::fp32>(DType::bf16, {Operand::bf16, tensor_core});
  require_told<Arithmetic::fp16_accumulate>(DType::f16, {Operand::fp16, Accumulator::fp16_fma});
}

TEST_CASE(
    "attestation: a claim of more accuracy than is there fails, or is reported where nothing is "
    "promised") {
  require_caught<Arithmetic::tf32_rounded>(DType::f32, {}, Arithmetic::tf32_rounded);
  require_caught<Arithmetic::tf32_truncated>(DType::f32, {}, Arithmetic::tf32_truncated);
  require_caught<Arithmetic::tf32_truncated>(DType::f32, {Operand::tf32_rounded, tensor_core},
                                             Arithmetic::tf32_truncated);
  require_caught<Arithmetic::fp16>(DType::f32, {}, Arithmetic::fp16);
  require_caught<Arithmetic::bf16>(DType::f32, {}, Arithmetic::bf16);
  require_caught<Arithmetic::fp16>(DType::bf16, {}, Arithmetic::fp16);
  require_caught<Arithmetic::bf16>(DType::f16, {}, Arithmetic::bf16);
  require_caught<Arithmetic::fp16_accumulate>(DType::f16, {}, Arithmetic::fp16_accumulate);
}

TEST_CASE("attestation: too few terms, or broadcast inputs, leave the arithmetic unknown") {
  ConvProblem one = plain_problem(DType::f32);
  one.c = one.r = one.s = 1;
  CHECK(attested(algorithm<Arithmetic::fp32>({}), one).arithmetic == Arithmetic::unknown);
  one.c = 2;
  CHECK(attested(algorithm<Arithmetic::fp32>({}), one).arithmetic == Arithmetic::unknown);
  CHECK(attested(algorithm<Arithmetic::bf16>({Operand::bf16, tensor_core}), one).arithmetic ==
        Arithmetic::bf16);
  ConvProblem broadcast = check(plain_problem(DType::f32));
  broadcast.x_strides[3] = 0;
  CHECK(attested(algorithm<Arithmetic::fp32>({}), broadcast).arithmetic == Arithmetic::unknown);
}
