// What numerics promise, field by field: the class, the arithmetic that attestation must see, and
// the bound, whose parts are told apart by problems of one term.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>

#include "plumb/plumb.hpp"
#include "plumb/validate.hpp"

using namespace plumb;
using Catch::Matchers::WithinRel;

namespace {

constexpr Accumulator tensor_core = Accumulator::tensor_core_fp32;

}  // namespace

TEST_CASE("numerics: what each operand claims, for each stored type") {
  const struct {
    Numerics numerics;
    DType dtype;
    Math math;
    Arithmetic arithmetic;
  } claims[] = {
      {{Operand::fp64, Accumulator::fp64_fma}, DType::f64, Math::fp64, Arithmetic::fp64},
      {{Operand::fp32, Accumulator::fp64_fma}, DType::f32, Math::fp32, Arithmetic::fp32},
      {{Operand::fp32, Accumulator::fp32_fma}, DType::f64, Math::fp32, Arithmetic::fp32},
      {{Operand::fp64, Accumulator::fp32_fma}, DType::f64, Math::fp32, Arithmetic::fp32},
      {{Operand::tf32_rounded, tensor_core}, DType::f32, Math::tf32, Arithmetic::tf32_rounded},
      {{Operand::tf32_truncated, tensor_core}, DType::f32, Math::tf32, Arithmetic::tf32_truncated},
      {{Operand::tf32_truncated, tensor_core}, DType::f64, Math::tf32, Arithmetic::tf32_truncated},
      {{Operand::tf32_truncated, tensor_core}, DType::f16, Math::fp32, Arithmetic::fp32},
      {{Operand::tf32_truncated, tensor_core}, DType::bf16, Math::fp32, Arithmetic::fp32},
      {{Operand::tf32_rounded, tensor_core}, DType::bf16, Math::fp32, Arithmetic::fp32},
      {{Operand::fp16_scaled, tensor_core}, DType::f32, Math::tf32, Arithmetic::tf32_rounded},
      {{Operand::fp16, tensor_core}, DType::f32, Math::fp16, Arithmetic::fp16},
      {{Operand::fp16, tensor_core}, DType::f16, Math::fp32, Arithmetic::fp32},
      {{Operand::bf16, tensor_core}, DType::f32, Math::bf16, Arithmetic::bf16},
      {{Operand::bf16, tensor_core}, DType::f16, Math::bf16, Arithmetic::bf16},
      {{Operand::bf16, tensor_core}, DType::bf16, Math::fp32, Arithmetic::fp32},
      {{Operand::fp16, tensor_core, 3}, DType::f32, Math::fp32, Arithmetic::fp32},
      {{Operand::fp32, Accumulator::fp16_fma}, DType::f32, Math::fp16, Arithmetic::fp16_accumulate},
  };
  for (const auto& claim : claims) {
    CAPTURE(static_cast<int>(claim.numerics.operand), to_string(claim.dtype));
    CHECK(to_string(math_class(claim.numerics, claim.dtype)) == to_string(claim.math));
    CHECK(to_string(claimed_arithmetic(claim.numerics, claim.dtype)) ==
          to_string(claim.arithmetic));
  }
}

TEST_CASE("numerics: who allows a class is served by those that promise no less") {
  // Rows: what is allowed. Columns: what is offered. Both in the order of Math.
  constexpr Math all[] = {Math::fp64, Math::fp32, Math::tf32, Math::bf16, Math::fp16};
  constexpr bool table[5][5] = {{true, false, false, false, false},
                                {true, true, false, false, false},
                                {true, true, true, false, false},
                                {true, true, true, true, false},
                                {true, true, true, false, true}};
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 5; ++j) {
      CAPTURE(to_string(all[i]), to_string(all[j]));
      CHECK(allows(all[i], all[j]) == table[i][j]);
    }
}

TEST_CASE("numerics: each operand's rounding is in the bound, unless it is stored as that") {
  const struct {
    Operand operand;
    DType dtype;
    double rounding;  ///< of one operand
  } roundings[] = {{Operand::fp64, DType::f64, 0},
                   {Operand::fp32, DType::f64, 0x1p-24},
                   {Operand::fp32, DType::f32, 0},
                   {Operand::tf32_rounded, DType::f32, 0x1p-11},
                   {Operand::tf32_rounded, DType::f16, 0},
                   {Operand::tf32_rounded, DType::bf16, 0},
                   {Operand::tf32_truncated, DType::f32, 0x1p-10},
                   {Operand::tf32_truncated, DType::f16, 0},
                   {Operand::tf32_truncated, DType::bf16, 0},
                   {Operand::fp16, DType::f32, 0x1p-11},
                   {Operand::fp16, DType::f16, 0},
                   {Operand::bf16, DType::f32, 0x1p-8},
                   {Operand::bf16, DType::bf16, 0}};
  for (const auto& one : roundings) {
    CAPTURE(static_cast<int>(one.operand), to_string(one.dtype));
    ConvProblem problem;
    problem.dtype = one.dtype;
    // Sums in fp64 leave little beside the operands; nothing is stored where `computed` is 0.
    const double bound =
        conv_error_bound({one.operand, Accumulator::fp64_fma}, problem, {.magnitude = 1}, 0);
    const double u = one.rounding;
    const double stored = one.dtype == DType::f16 ? 0x1p-25 : 0;  // below the normal numbers
    CHECK(bound >= 2 * u + u * u + stored);
    CHECK(bound <= 2 * u + u * u + stored + 0x1p-48);
  }
}

TEST_CASE("numerics: each accumulator's rounding and each stored type's is in the bound") {
  ConvProblem problem;
  problem.c = 100;
  const auto bound = [&](const Numerics& numerics, DType dtype, double magnitude, double computed) {
    problem.dtype = dtype;
    return conv_error_bound(numerics, problem, {.magnitude = magnitude}, computed);
  };
  const double terms = 101;
  const auto gamma = [](double n, double u) { return n * u / (1 - n * u); };
  const Operand f32 = Operand::fp32;
  CHECK_THAT(bound({f32, Accumulator::fp64_fma}, DType::f32, 1, 0),
             WithinRel(2 * gamma(terms, 0x1p-53), 1e-6));
  CHECK_THAT(bound({f32, Accumulator::fp32_fma}, DType::f32, 1, 0),
             WithinRel(gamma(terms, 0x1p-24), 1e-6));
  CHECK_THAT(bound({f32, Accumulator::fp16_fma}, DType::f32, 1, 0),
             WithinRel(gamma(terms, 0x1p-11) + terms * 0x1p-25, 1e-6));
  CHECK_THAT(bound({f32, tensor_core}, DType::f32, 1, 0), WithinRel(1.01 * terms * 0x1p-24, 1e-6));
  problem.c = 4000;  // more than sums in fp16 can promise anything of
  CHECK(std::isinf(bound({f32, Accumulator::fp16_fma}, DType::f32, 1, 0)));
  problem.c = 100;

  const auto stored = [&](Accumulator accumulator, DType dtype) {
    return bound({Operand::fp64, accumulator}, dtype, 0, 1);
  };
  CHECK(stored(Accumulator::fp64_fma, DType::f64) == 0);
  CHECK_THAT(stored(Accumulator::fp32_fma, DType::f64), WithinRel(0x1p-53, 1e-6));
  CHECK_THAT(stored(Accumulator::fp64_fma, DType::f32), WithinRel(0x1p-24, 1e-6));
  CHECK(stored(Accumulator::fp32_fma, DType::f32) < 0x1p-140);
  CHECK_THAT(stored(Accumulator::fp32_fma, DType::f16), WithinRel(0x1p-11 + 0x1p-25, 1e-6));
  CHECK_THAT(stored(Accumulator::fp32_fma, DType::bf16), WithinRel(0x1p-8, 1e-6));
  // Three products of halves each.
  CHECK_THAT(bound({Operand::fp16, tensor_core, 3}, DType::f32, 1, 0),
             WithinRel(3 * 0x1p-22 + 1.01 * (300 + 1) * 0x1p-24, 1e-2));
}
