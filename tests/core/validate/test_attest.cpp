// Attestation tells arithmetic apart by results alone: a plain convolution in each arithmetic is
// told for what it is, passes where it claims that, and fails where it claims another.
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <stdexcept>

#include "plumb/plumb.hpp"
#include "plumb/validate.hpp"
#include "support/host_tensor.hpp"

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

/// Where an element lies; a tensor without a depth has no third stride.
std::int64_t offset(const Strides& strides, const Dims& index) {
  const bool deep = strides.rank() == 5;
  return index[0] * strides[0] + index[1] * strides[1] + (deep ? index[2] * strides[2] : 0) +
         index[3] * strides[deep ? 3 : 2] + index[4] * strides[deep ? 4 : 3];
}

/// One output: every tap after the other, each operand and each sum rounded.
template <Arithmetic arithmetic>
double output(const ConvLaunch& launch, const Dims& at) {
  const ConvProblem& p = launch.problem;
  const ConstTensorView x(launch.x, p.dtype, p.x_extents(), host, p.x_strides);
  const ConstTensorView w(launch.w, p.dtype, p.w_extents(), host, p.w_strides);
  double total = 0;
  plumb_test::for_each_index({p.c, p.t, p.r, p.s}, [&](const Dims& tap) {
    const std::int64_t d = boundary_index(
        p.boundary.d, at[2] * p.stride.d + tap[1] * p.dilation.d - p.padding.front, p.d);
    const std::int64_t h = boundary_index(
        p.boundary.h, at[3] * p.stride.h + tap[2] * p.dilation.h - p.padding.top, p.h);
    const std::int64_t v = boundary_index(
        p.boundary.w, at[4] * p.stride.w + tap[3] * p.dilation.w - p.padding.left, p.w);
    if (d < 0 || h < 0 || v < 0) return;
    const double pixel = load_element(x, offset(p.x_strides, {at[0], tap[0], d, h, v}));
    const double weight =
        load_element(w, offset(p.w_strides, {at[1], tap[0], tap[1], tap[2], tap[3]}));
    total = sum<arithmetic>(total + operand<arithmetic>(pixel) * operand<arithmetic>(weight));
  });
  return total;
}

template <Arithmetic arithmetic>
void launch(const ConvLaunch& launch) {
  const ConvProblem& p = launch.problem;
  const TensorView y(launch.y, p.dtype, p.y_extents(), host, p.y_strides);
  plumb_test::for_each_index({p.n, p.k, p.z(), p.p(), p.q()}, [&](const Dims& at) {
    const std::int64_t to = offset(p.y_strides, at);
    const double old = launch.accumulate ? load_element(y, to) : 0;
    store_element(y, to, output<arithmetic>(launch, at) + old);
  });
}

template <Arithmetic arithmetic>
ConvAlgorithm algorithm(const Numerics& claim) {
  return {
      .name = "cpu.conv.plain",
      .numerics = claim,
      .takes_depth = true,
      .takes_boundaries = true,
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

ValidationRecord attested(const ConvAlgorithm& one, const ConvProblem& problem,
                          bool accumulate = false) {
  const ConvAlgorithm* judged = &one;
  ValidationCase test = validation_case("", problem, Placement::views);
  test.accumulate = accumulate;
  const auto records = validate(Device::open("cpu"), {&judged, 1}, test,
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

TEST_CASE(
    "attestation: with a depth, a boundary, a pooling and an old y the probes tell the same") {
  // The last two show each pixel many times over, in the window of the pooling too.
  for (const char* text :
       {"mb1ic2id4ih5iw5oc2kd3kh2kw3pd1ph1pw1", "mb2ic1id1ih5iw4oc2kd3kh3kw1pd1ph1pw0",
        "mb1ic2ih5oc2kh3ph1_padperiodic", "mb1ic2id3ih4iw5oc2kd3kh3kw3pd1ph1pw1_padsymmetric",
        "mb1ic3ih2iw3oc2kh3ph3_padreflect", "mb1ic3ih6iw7oc2kh3ph1_poolmax2x2_padclamp",
        "mb1ic4ih3iw4oc2kh3ph2_poolmax2x2_padperiodic"}) {
    CAPTURE(text);
    ConvProblem problem = parse_problem(text).problem;
    const auto told = [&](const ConvAlgorithm& one, Arithmetic arithmetic, bool accumulate) {
      const ValidationRecord seen = attested(one, problem, accumulate);
      CAPTURE(seen.sentence);
      CHECK(to_string(seen.arithmetic) == to_string(arithmetic));
      CHECK(seen.verdict == Verdict::pass);
    };
    for (const bool accumulate : {false, true}) {
      if (accumulate && problem.pool != Pool::none) continue;
      problem.dtype = DType::f32;
      told(algorithm<Arithmetic::fp32>({}), Arithmetic::fp32, accumulate);
      told(algorithm<Arithmetic::tf32_rounded>({Operand::tf32_rounded, tensor_core}),
           Arithmetic::tf32_rounded, accumulate);
      problem.dtype = DType::f64;
      told(algorithm<Arithmetic::fp64>({Operand::fp64, Accumulator::fp64_fma}), Arithmetic::fp64,
           accumulate);
      problem.dtype = DType::f16;
      told(algorithm<Arithmetic::fp16_accumulate>({Operand::fp16, Accumulator::fp16_fma}),
           Arithmetic::fp16_accumulate, accumulate);
    }
  }
}
