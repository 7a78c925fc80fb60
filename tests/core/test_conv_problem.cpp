// The check that every convolution passes before anything is planned.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>

#include "plumb/plumb.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

ConvProblem small() {
  ConvProblem problem;
  problem.n = 2, problem.c = 4, problem.h = 8, problem.w = 9;
  problem.k = 6, problem.r = 3, problem.s = 2;
  return problem;
}

void refused(const ConvProblem& problem, const std::string& value, const std::string& expected) {
  REQUIRE_THROWS_MATCHES(check(problem), Error,
                         MessageMatches(ContainsSubstring(value) && ContainsSubstring(expected)));
}

}  // namespace

TEST_CASE("conv problem: output sizes are those worked out by hand") {
  ConvProblem problem = small();
  REQUIRE(problem.p() == 6);  // (8 - 3) / 1 + 1
  REQUIRE(problem.q() == 8);  // (9 - 2) / 1 + 1
  problem.stride = {2, 3};
  REQUIRE(problem.p() == 3);  // floor(5 / 2) + 1
  REQUIRE(problem.q() == 3);  // floor(7 / 3) + 1
  problem.dilation = {3, 5};  // the filter reaches 7 rows and 6 columns
  problem.padding = {1, 2, 3, 4};
  REQUIRE(problem.p() == 3);  // floor((8 + 1 + 3 - 7) / 2) + 1
  REQUIRE(problem.q() == 4);  // floor((9 + 2 + 4 - 6) / 3) + 1
  problem.groups = 2;
  REQUIRE(problem.terms() == 2 * 3 * 2);
  REQUIRE(problem.flop() == 2.0 * 2 * 6 * 3 * 4 * 12);
}

TEST_CASE("conv problem: each wrong value is refused with what was expected") {
  const auto with = [](auto change) {
    ConvProblem problem = small();
    change(problem);
    return problem;
  };
  refused(with([](auto& p) { p.n = -1; }), "N is -1", "at least 0");
  refused(with([](auto& p) { p.c = 0; }), "C is 0", "at least 1");
  refused(with([](auto& p) { p.w = 0; }), "W is 0", "at least 1");
  refused(with([](auto& p) { p.stride.w = 0; }), "stride.w is 0", "at least 1");
  refused(with([](auto& p) { p.dilation.h = -2; }), "dilation.h is -2", "at least 1");
  refused(with([](auto& p) { p.padding.bottom = -1; }), "padding.bottom is -1", "at least 0");
  refused(with([](auto& p) { p.groups = 3; }), "C is 4", "multiple of groups, 3");
  refused(with([](auto& p) { p.groups = 4; }), "K is 6", "multiple of groups, 4");
  refused(with([](auto& p) { p.r = 9; }), "9 rows", "8 padded rows");
  refused(with([](auto& p) { p.s = 2, p.dilation.w = 9; }), "2 columns at dilation 9", "9 padded");
  refused(with([](auto& p) { p.n = std::int64_t{1} << 60; }), "N is", "2^48");
  refused(with([](auto& p) { p.h = p.w = std::int64_t{1} << 40; }), "1099511627776", "2^60");
  refused(with([](auto& p) { p.y_strides = {1, 1, 1, 1}; }), "[1, 1, 1, 1]", "overlaps");
  refused(with([](auto& p) { p.x_strides = {1, 1}; }), "2 strides", "expected 4");
  refused(with([](auto& p) { p.r = std::int64_t{1} << 47, p.dilation.h = std::int64_t{1} << 47; }),
          "140737488355328 rows", "does not fit");
  REQUIRE(check(with([](auto& p) { p.n = 0; })).n == 0);
}

TEST_CASE("conv problem: pooling halves the stored output and changes nothing else") {
  ConvProblem problem = small();
  problem.pool = Pool::max_2x2;
  const double flop = small().flop(), bytes = small().bytes();
  REQUIRE(problem.p() == 6);
  REQUIRE(problem.q() == 8);
  REQUIRE(problem.y_extents() == Extents{2, 6, 3, 4});
  REQUIRE(problem.flop() == flop);
  REQUIRE(problem.bytes() == bytes - 2 * 6 * (6 * 8 - 3 * 4) * 4);
  REQUIRE(check(problem).y_strides == Strides{6 * 12, 12, 4, 1});
  problem.padding.bottom = 1;  // a seventh row, which is dropped
  REQUIRE(problem.y_extents() == Extents{2, 6, 3, 4});
  problem.y_strides = {100, 4, 24, 1};
  REQUIRE(problem.unpooled().y_extents() == Extents{2, 6, 7, 8});
  REQUIRE(problem.unpooled().y_strides == Strides{6 * 56, 56, 8, 1});
  REQUIRE(problem.unpooled().pool == Pool::none);
  problem = small();
  problem.pool = Pool::max_2x2;
  problem.r = 8;
  refused(problem, "P is 1", "at least 2");
  problem.r = 3, problem.stride.w = 8;
  refused(problem, "Q is 1", "at least 2");
  REQUIRE(to_string(Pool::max_2x2) == "max_2x2");
}

TEST_CASE("conv problem: missing strides are filled in, given ones are kept") {
  ConvProblem problem = small();
  problem.x_strides = strides_for(Layout::nhwc, problem.x_extents());
  const ConvProblem checked = check(problem);
  REQUIRE(checked.x_strides == problem.x_strides);
  REQUIRE(checked.w_strides == Strides{24, 6, 2, 1});
  REQUIRE(checked.y_strides == Strides{6 * 6 * 8, 48, 8, 1});
}

TEST_CASE("conv problem: tensors that do not fit each other are refused by name") {
  float data[512] = {};
  const ConstTensorView x(data, {1, 2, 5, 5}), w(data, {3, 2, 3, 3});
  const TensorView y(data, {1, 3, 3, 3});
  REQUIRE(problem_of({.x = x, .w = w, .y = y}).p() == 3);
  REQUIRE_THROWS_MATCHES(problem_of({.x = x, .w = ConstTensorView(data, {3, 1, 3, 3}), .y = y}),
                         Error, MessageMatches(ContainsSubstring("[3, 2, 3, 3]")));
  REQUIRE_THROWS_MATCHES(problem_of({.x = x, .w = w, .y = TensorView(data, {1, 3, 3, 4})}), Error,
                         MessageMatches(ContainsSubstring("expected [1, 3, 3, 3]")));
  REQUIRE_THROWS_MATCHES(problem_of({.x = ConstTensorView(data, {2, 25}), .w = w, .y = y}), Error,
                         MessageMatches(ContainsSubstring("N C H W")));
  const double other[64] = {};
  REQUIRE_THROWS_MATCHES(problem_of({.x = x, .w = ConstTensorView(other, {3, 2, 3, 3}), .y = y}),
                         Error, MessageMatches(ContainsSubstring("w f64")));
}

TEST_CASE("numerics: the class of each arithmetic, for each stored type") {
  const Numerics fp32{}, fp64{Operand::fp64, Accumulator::fp64_fma};
  const Numerics tf32{Operand::tf32_rounded, Accumulator::tensor_core_fp32};
  const Numerics fp16{Operand::fp16, Accumulator::tensor_core_fp32};
  const Numerics scaled{Operand::fp16_scaled, Accumulator::tensor_core_fp32};
  const Numerics split{Operand::fp16, Accumulator::tensor_core_fp32, 3};
  const Numerics half{Operand::fp16, Accumulator::fp16_fma};
  REQUIRE(math_class(fp32, DType::f32) == Math::fp32);
  REQUIRE(math_class(fp64, DType::f32) == Math::fp64);
  REQUIRE(math_class(tf32, DType::f32) == Math::tf32);
  REQUIRE(math_class(tf32, DType::f16) == Math::fp32);  // f16 fits TF32: nothing is rounded
  REQUIRE(math_class(fp16, DType::f32) == Math::fp16);
  REQUIRE(math_class(fp16, DType::f16) == Math::fp32);
  REQUIRE(math_class(fp16, DType::bf16) == Math::fp16);   // bf16 has more range than fp16
  REQUIRE(math_class(scaled, DType::f32) == Math::tf32);  // as many digits, and no less range
  REQUIRE(math_class(split, DType::f32) == Math::fp32);
  REQUIRE(math_class(half, DType::f16) == Math::fp16);

  REQUIRE(allows(Math::fp32, Math::fp64));
  REQUIRE_FALSE(allows(Math::fp64, Math::fp32));
  REQUIRE_FALSE(allows(Math::fp32, Math::tf32));
  REQUIRE(allows(Math::bf16, Math::tf32));
  REQUIRE_FALSE(allows(Math::bf16, Math::fp16));
  REQUIRE_FALSE(allows(Math::fp16, Math::bf16));
}

TEST_CASE("numerics: the error bound is the one worked out by hand") {
  ConvProblem problem;  // one term
  // gamma_2(2^-24) S, one term and the bias, and the oracle's own gamma_2(2^-53) S.
  const double u = 0x1p-24, gamma_2 = 2 * u / (1 - 2 * u);
  const double bound = conv_error_bound(Numerics{}, problem, {.magnitude = 3}, 1);
  REQUIRE(bound >= gamma_2 * 3);
  REQUIRE(bound <= gamma_2 * 3 * 1.000001);
  // Who promises nothing is bound by nothing.
  REQUIRE(std::isinf(conv_error_bound({.bounded = false}, problem, {.magnitude = 3}, 1)));
  // Operands that are scaled before they are rounded to fp16 are bound as in TF32, however small,
  // but for what sums may lack of those that are small beside others.
  const OracleTerm small{.magnitude = 0x1p-60, .x_magnitude = 1, .w_magnitude = 0x1p-60};
  const auto of = [&](Operand operand, int products = 1) {
    return conv_error_bound({operand, Accumulator::tensor_core_fp32, products}, problem, small, 0);
  };
  const double lacking = of(Operand::fp16_scaled) - of(Operand::tf32_rounded);
  REQUIRE(lacking >= 0x1p-60 * 0x1p-16);
  REQUIRE(lacking <= 0x1p-60 * 0x1.001p-16);
  REQUIRE(of(Operand::fp16) >= 0x1p-25);
  // So are three products of halves: 3 2^-22, 2^-24, and four additions of tensor cores.
  const double three = 0x3p-22 + 0x1p-24 + 1.01 * 4 * 0x1p-24;
  REQUIRE(of(Operand::fp16, 3) >= 0x1p-60 * three);
  REQUIRE(of(Operand::fp16, 3) <= 0x1p-60 * three * 1.001);
  // Storing as f16 adds half a unit in the last place of the result.
  problem.dtype = DType::f16;
  const double stored = conv_error_bound(Numerics{}, problem, {.magnitude = 3}, 1);
  REQUIRE(stored >= bound + 0x1p-11);
  REQUIRE(stored <= bound + 0x1.01p-11);
}

TEST_CASE("numerics: the bound of a sum that is added to y, by hand") {
  ConvProblem problem;  // one term
  const OracleTerm added{.y = 0.5, .magnitude = 3, .accumulated = 2};
  // The bias and the old value are terms: gamma_3; the addition is rounded once more, at most twice
  // 2^-24 of what the sum can be, |y| + |old|.
  const double u = 0x1p-24, gamma_3 = 3 * u / (1 - 3 * u);
  const double f32 = conv_error_bound(Numerics{}, problem, added, 0.5);
  REQUIRE(f32 >= gamma_3 * 3 + 2 * u * 2.5);
  REQUIRE(f32 <= (gamma_3 * 3 + 2 * u * 2.5) * 1.00001);
  // In 16 bits the convolution is rounded on its way through workspace.
  problem.dtype = DType::bf16;
  const double bf16 = conv_error_bound(Numerics{}, problem, added, 0.5);
  REQUIRE(bf16 >= 0x1p-8 * 0.5 + 0x1p-8 * 2.5);
  REQUIRE(bf16 <= (0x1p-8 * 0.5 + 0x1p-8 * 2.5) * 1.001);
  // An algorithm that sums in fp64 stores f32 twice.
  problem.dtype = DType::f32;
  const Numerics fp64{Operand::fp64, Accumulator::fp64_fma};
  REQUIRE(conv_error_bound(fp64, problem, added, 0.5) >= u * 0.5 + 3 * u * 2.5);
  // Nothing is added where nothing was: as before.
  const OracleTerm none{.y = 0.5, .magnitude = 3};
  REQUIRE(conv_error_bound(Numerics{}, problem, none, 0.5) < f32);
}
