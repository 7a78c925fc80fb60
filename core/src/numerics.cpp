// What an algorithm promises, and the bound that follows from it. docs/numerics.md derives it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "fold.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"
#include "plumb/validate.hpp"

namespace plumb {
namespace {

/// Rounding of an operand that is stored as `dtype` to the type that products are formed in.
double operand_rounding(Operand operand, DType dtype) {
  const bool stored_f16 = dtype == DType::f16, stored_bf16 = dtype == DType::bf16;
  switch (operand) {
    case Operand::fp64: return 0;
    case Operand::fp32: return dtype == DType::f64 ? 0x1p-24 : 0;
    // f16 and bf16 have no more significant bits than TF32, and no wider exponents.
    case Operand::tf32_rounded: return stored_f16 || stored_bf16 ? 0 : 0x1p-11;
    case Operand::tf32_truncated: return stored_f16 || stored_bf16 ? 0 : 0x1p-10;
    case Operand::fp16:
    case Operand::fp16_scaled: return stored_f16 ? 0 : 0x1p-11;
    case Operand::bf16: return stored_bf16 ? 0 : 0x1p-8;
  }
  return std::numeric_limits<double>::infinity();
}

/// What a sum may lack of operands too small for the halves that others share a scale with, as a
/// part of it: where more is lacking it is made anew (docs/numerics.md, "Small operands").
double dropped_of_small(const Numerics& numerics, DType dtype) {
  if (dtype == DType::f16) return 0;
  if (numerics.operand == Operand::fp16 && numerics.products > 1) return 0x1p-24;
  return numerics.operand == Operand::fp16_scaled ? 0x1p-16 : 0;
}

/// gamma_n(u) = n u / (1 - n u), for n u < 1 (Higham, Accuracy and Stability, lemma 3.1).
double gamma(double n, double u) {
  return n * u < 1 ? n * u / (1 - n * u) : std::numeric_limits<double>::infinity();
}

double accumulation(const Numerics& numerics, double terms) {
  switch (numerics.accumulator) {
    case Accumulator::fp64_fma: return gamma(terms, 0x1p-53);
    case Accumulator::fp32_fma:
    case Accumulator::fp32_flushed: return gamma(terms, 0x1p-24);
    case Accumulator::fp16_fma: return gamma(terms, 0x1p-11);
    case Accumulator::tensor_core_fp32: return 1.01 * terms * 0x1p-24;
  }
  return std::numeric_limits<double>::infinity();
}

/// Rounding to a stored type.
double rounding_to(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
  }
  return std::numeric_limits<double>::infinity();
}

/// The same of a sum; the accumulator's own type is stored without it.
double output_rounding(Accumulator accumulator, DType dtype) {
  const DType own = accumulator == Accumulator::fp64_fma ? DType::f64 : DType::f32;
  return dtype == own ? 0 : rounding_to(dtype);
}

/// What rounding below the smallest normal number can add, once for each sum and once at the end.
double underflow(Accumulator accumulator, DType dtype, double terms) {
  double eta = 0;
  if (accumulator == Accumulator::fp16_fma) eta += terms * 0x1p-25;
  if (accumulator == Accumulator::fp32_fma || accumulator == Accumulator::tensor_core_fp32)
    eta += terms * 0x1p-150;
  if (accumulator == Accumulator::fp32_flushed) eta += terms * 0x1p-126;
  if (dtype == DType::f16) eta += 0x1p-25;
  if (dtype == DType::bf16) eta += 0x1p-134;
  if (dtype == DType::f32) eta += 0x1p-150;
  return eta;
}

/// What it may cost that the gradient of a padded image lies in workspace, in the stored type,
/// where what a boundary shows again is added to where it came from: a rounding for each sum there,
/// and two for what follows.
double folding(DType dtype, const ConvProblem& p, double largest) {
  if (p.direction != Direction::backward_data || p.boundary == Boundaries{}) return 0;
  const auto sums = [](Boundary boundary, std::int64_t extent, std::int64_t before,
                       std::int64_t after) {
    return static_cast<double>(folded_at_most(boundary, extent, before, after));
  };
  const double roundings = sums(p.boundary.d, p.d, p.padding.front, p.padding.back) +
                           sums(p.boundary.h, p.h, p.padding.top, p.padding.bottom) +
                           sums(p.boundary.w, p.w, p.padding.left, p.padding.right);
  return gamma(roundings, rounding_to(dtype)) * largest;
}

/// What it may cost that a convolution is rounded to the stored type on its way through workspace,
/// where a kernel does not add to y by itself; `sum` is the bound so far. None of it without an old
/// value: zero is added without an error.
double staging(Accumulator accumulator, DType dtype, const OracleTerm& oracle, double sum) {
  if (!(oracle.accumulated > 0)) return 0;
  // Sums of what is stored are formed in fp32, those of f64 in fp64.
  const double addition = dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
  const double largest = std::min(std::abs(oracle.y) + oracle.accumulated, oracle.magnitude) + sum;
  return (output_rounding(accumulator, dtype) + 2 * addition) * largest;
}

}  // namespace

Math math_class(const Numerics& numerics, DType dtype) {
  if (numerics.accumulator == Accumulator::fp16_fma) return Math::fp16;
  if (numerics.accumulator == Accumulator::fp32_flushed) return Math::bf16;
  if (numerics.accumulator == Accumulator::fp64_fma && numerics.operand == Operand::fp64)
    return Math::fp64;
  if (numerics.products > 1 || operand_rounding(numerics.operand, dtype) == 0) return Math::fp32;
  switch (numerics.operand) {
    case Operand::fp64:
    case Operand::fp32: return Math::fp32;
    case Operand::tf32_rounded:
    case Operand::tf32_truncated:
    case Operand::fp16_scaled: return Math::tf32;
    case Operand::fp16: return Math::fp16;
    case Operand::bf16: return Math::bf16;
  }
  return Math::fp16;
}

bool allows(Math allowed, Math offered) {
  // fp16 and bf16 are no order: the one has less range, the other fewer digits.
  if (allowed == offered) return true;
  switch (offered) {
    case Math::fp64: return true;
    case Math::fp32: return allowed != Math::fp64;
    case Math::tf32: return allowed == Math::bf16 || allowed == Math::fp16;
    case Math::bf16:
    case Math::fp16: return false;
  }
  return false;
}

double conv_error_bound(const Numerics& numerics, const ConvProblem& problem,
                        const OracleTerm& oracle, double computed) {
  if (!numerics.bounded) return std::numeric_limits<double>::infinity();
  const double multiple = numerics.term_multiple;
  // Of a gradient a boundary may add terms, where it shows a pixel again.
  const double formed = std::max(static_cast<double>(problem.terms()), oracle.terms);
  const double padded = std::ceil(formed / multiple) * multiple;
  // And the bias, and the old value.
  const double others = oracle.accumulated > 0 ? 2 : 1;
  const double terms = padded * numerics.products + others;
  const double chain = numerics.chain ? numerics.chain(problem) + others : terms;
  const double u_in = operand_rounding(numerics.operand, problem.dtype);
  const double operands = (numerics.products > 1 ? 3 * 0x1p-22 : 2 * u_in + u_in * u_in) +
                          dropped_of_small(numerics, problem.dtype);
  const double sum = accumulation(numerics, chain) * (1 + u_in) * (1 + u_in);
  const double oracle_sum = gamma(terms, 0x1p-53);
  const double smallest =
      numerics.accumulator == Accumulator::fp32_flushed ? 0x1p-126
      // Three products are of scaled operands.
      : numerics.operand == Operand::fp16 && numerics.products == 1 && problem.dtype != DType::f16
          ? 0x1p-25
      // The lowest bit of low halves in TF32.
      : numerics.operand == Operand::tf32_rounded && numerics.products > 1 ? 0x1p-136
                                                                           : 0;
  const double small_operands =
      smallest > 0 ? smallest * (oracle.x_magnitude + oracle.w_magnitude) : 0;
  // An output without terms is exact, even where nothing is promised of sums: Inf * 0 is NaN.
  const double relative =
      oracle.magnitude > 0 ? (operands + sum + oracle_sum) * oracle.magnitude : 0;
  const double stored = underflow(numerics.accumulator, problem.dtype, terms);
  return relative + output_rounding(numerics.accumulator, problem.dtype) * std::abs(computed) +
         (oracle.accumulated > 0 ? 2 : 1) * stored + small_operands +
         folding(problem.dtype, problem, oracle.magnitude + relative + small_operands) +
         staging(numerics.accumulator, problem.dtype, oracle, relative + small_operands);
}

double segments_error_bound(DType dtype, std::int64_t segments, int depth, double magnitude,
                            double bound) {
  if (depth == 0) return 0;
  // Each segment's gradient is rounded once when it is stored, and again by each addition. Sums
  // that come out subnormal are exact.
  const double stored = rounding_to(dtype);
  return gamma(depth + 1, stored) * (magnitude + bound) +
         static_cast<double>(segments) * underflow(Accumulator::fp64_fma, dtype, 0);
}

double bias_gradient_error_bound(DType dtype, double terms, double magnitude, double computed) {
  // Narrow types are rounded by way of fp32 on some devices. The oracle's own sum is one too.
  const bool narrow = dtype == DType::f16 || dtype == DType::bf16;
  const double stored = output_rounding(Accumulator::fp64_fma, dtype) + (narrow ? 0x1p-23 : 0);
  return 2 * gamma(terms + 1, 0x1p-53) * magnitude + stored * std::abs(computed) +
         underflow(Accumulator::fp64_fma, dtype, terms);
}

}  // namespace plumb
