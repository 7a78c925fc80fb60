// Probes that are exact in one arithmetic and not in another.
//
// Operands: 1 + 3 2^-12 survives fp32, rounds to 1 + 2^-10 in TF32 and fp16 and truncates to 1 in
// TF32; 1 + 3 2^-10 survives TF32 and not bf16; 2^17 does not fit fp16. Sums: big, small, -big in
// every order of three taps gives `small` where the sum keeps it and zero where it does not; an
// accumulator that loses it in any order has no room for it. The probes are compared with
// thresholds, not for equality, so that algorithms that transform their input can be told too.
//
// Where the problem pools, the probe is the first of the outputs that a maximum is taken of, and
// the others must stay zero below it (what a probe looks for is positive). A pixel meets a tap that
// it is not meant for only at an output as far away as the two taps of the sum are from each other,
// so the taps of one sum are chosen to be further apart than the window, or of different channels.
#include "attest.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "../names.hpp"
#include "../overlap.hpp"

namespace plumb {
namespace {

constexpr Name<Arithmetic> arithmetics[] = {{Arithmetic::unknown, "unknown"},
                                            {Arithmetic::fp64, "fp64"},
                                            {Arithmetic::fp32, "fp32"},
                                            {Arithmetic::tf32_rounded, "tf32_rounded"},
                                            {Arithmetic::tf32_truncated, "tf32_truncated"},
                                            {Arithmetic::fp16, "fp16"},
                                            {Arithmetic::fp16_accumulate, "fp16_accumulate"},
                                            {Arithmetic::bf16, "bf16"}};

struct Tap {
  std::int64_t c, r, s;  ///< of the filter
  std::int64_t h, w;     ///< of the image, inside it
};

class Prober {
 public:
  Prober(Trial& trial, const ConvAlgorithm& algorithm, Queue& queue)
      : trial_(trial), algorithm_(algorithm), queue_(queue), y_(trial.make_output()) {
    const ConvProblem& problem = trial.problem();
    if (problem.n == 0) return;
    // The output in the middle sees the most of the image.
    const Extents y = problem.y_extents();
    const std::int64_t outputs_a_side = problem.pool == Pool::none ? 1 : 2;
    row_ = y[2] / 2, column_ = y[3] / 2;
    const std::int64_t p = outputs_a_side * row_, q = outputs_a_side * column_;
    for (std::int64_t c = 0; c < problem.c / problem.groups; ++c)
      for (std::int64_t r = 0; r < problem.r; ++r)
        for (std::int64_t s = 0; s < problem.s; ++s) {
          const Tap tap{c, r, s,
                        p * problem.stride.h + r * problem.dilation.h - problem.padding.top,
                        q * problem.stride.w + s * problem.dilation.w - problem.padding.left};
          if (tap.h >= 0 && tap.h < problem.h && tap.w >= 0 && tap.w < problem.w)
            taps_.push_back(tap);
        }
  }

  std::size_t taps() const { return taps_.size(); }

  /// Three taps that may be in one sum: the first, the last, and the middle or one after it; fewer
  /// where there are none.
  std::vector<std::size_t> three_taps() const {
    if (taps() < 3) return {};
    const std::size_t last = taps() - 1;
    if (!apart(taps_[0], taps_[last])) return {};
    for (std::size_t i = 0; i + 2 < taps(); ++i) {
      const std::size_t middle = 1 + (last / 2 - 1 + i) % (last - 1);
      if (apart(taps_[0], taps_[middle]) && apart(taps_[middle], taps_[last]))
        return {0, middle, last};
    }
    return {};
  }

  /// The output whose only terms are x[i] w[i], at the taps given by number.
  struct Term {
    std::size_t tap;
    double x, w;
  };
  double operator()(const std::vector<Term>& terms) {
    const ConvProblem& problem = trial_.problem();
    const auto zero = [](const TensorView& view) {
      for_each_offset(view.extents(), view.strides(),
                      [&](std::int64_t offset) { store_element(view, offset, 0); });
    };
    const TensorView x = trial_.x(), w = trial_.w();
    zero(x);
    zero(w);
    if (!trial_.bias().empty()) zero(trial_.bias());
    for (const Term& term : terms) {
      const Tap& tap = taps_[term.tap];
      const Strides &xs = problem.x_strides, &ws = problem.w_strides;
      store_element(x, tap.c * xs[1] + tap.h * xs[2] + tap.w * xs[3], term.x);
      store_element(w, tap.c * ws[1] + tap.r * ws[2] + tap.s * ws[3], term.w);
    }
    trial_.upload_inputs(queue_);
    trial_.run(algorithm_, queue_, y_);
    return load_element(y_.host(), row_ * problem.y_strides[2] + column_ * problem.y_strides[3]);
  }

 private:
  /// Whether no output of the pooling's window has a pixel meant for one of the taps under the
  /// other.
  bool apart(const Tap& a, const Tap& b) const {
    const ConvProblem& problem = trial_.problem();
    if (problem.pool == Pool::none || a.c != b.c) return true;
    const std::int64_t h = std::abs(a.h - b.h), w = std::abs(a.w - b.w);
    return !((h == 0 || h == problem.stride.h) && (w == 0 || w == problem.stride.w));
  }

  Trial& trial_;
  const ConvAlgorithm& algorithm_;
  Queue& queue_;
  GuardedTensor y_;
  std::int64_t row_ = 0, column_ = 0;  ///< of y
  std::vector<Tap> taps_;
};

/// Whether big + small - big comes out as `small` in every order of three taps, at several `places`
/// of the reduction. All values are powers of two, so that no operand is rounded.
bool keeps(Prober& probe, const std::vector<std::size_t>& places, double small) {
  constexpr double big = 0x1p6;  // keeps `small` above the smallest f16
  const std::array values{big, small * big, -big};
  std::array order{0, 1, 2};
  do {
    std::vector<Prober::Term> terms;
    for (std::size_t i = 0; i < 3; ++i) {
      // The factors share the exponent, so that both fit a narrow type.
      const double value = values[static_cast<std::size_t>(order[i])];
      const int exponent = std::ilogb(std::abs(value));
      const double w = std::ldexp(1.0, exponent / 2);
      terms.push_back({places[i], value / w, w});
    }
    if (!(std::abs(probe(terms) - small * big) <= 0.25 * small * big)) return false;
  } while (std::next_permutation(order.begin(), order.end()));
  return true;
}

/// What the operands were rounded to, told from one product.
Arithmetic operands(Prober& probe, DType dtype) {
  const std::size_t middle = probe.taps() / 2;
  const auto through = [&](double value, double other) { return probe({{middle, value, other}}); };
  if (dtype == DType::f32 || dtype == DType::f64) {
    const double result = through(1 + 0x3p-12, 1);
    if (std::abs(result - (1 + 0x3p-12)) < 0x1p-14) return Arithmetic::fp32;
    // Ten bits or fewer: by range, by the eighth bit, and by the direction of rounding.
    if (std::abs(through(1 + 0x3p-10, 1) - (1 + 0x3p-10)) > 0x1p-11) return Arithmetic::bf16;
    if (!(std::abs(through(0x1p17, 0x1p-2) - 0x1p15) < 0x1p10)) return Arithmetic::fp16;
    if (std::abs(result - 1) < 0x1p-12) return Arithmetic::tf32_truncated;
    if (std::abs(result - (1 + 0x1p-10)) < 0x1p-12) return Arithmetic::tf32_rounded;
    return Arithmetic::unknown;
  }
  // Narrow tensors: only a still narrower operand shows. f16 in bf16 loses its last digits, bf16
  // in fp16 its range.
  if (dtype == DType::f16)
    return std::abs(through(1 + 0x3p-10, 1) - (1 + 0x3p-10)) > 0x1p-11 ? Arithmetic::bf16
                                                                       : Arithmetic::fp32;
  return std::abs(through(0x1p17, 0x1p-2) - 0x1p15) < 0x1p10 ? Arithmetic::fp32 : Arithmetic::fp16;
}

}  // namespace

std::string_view to_string(Arithmetic arithmetic) { return name_of(arithmetics, arithmetic); }

Arithmetic claimed_arithmetic(const Numerics& numerics, DType dtype) {
  if (numerics.accumulator == Accumulator::fp16_fma) return Arithmetic::fp16_accumulate;
  switch (math_class(numerics, dtype)) {
    case Math::fp64: return Arithmetic::fp64;
    case Math::fp32: return Arithmetic::fp32;
    case Math::tf32:
      // Scaled fp16 has the bits of TF32 and no limits to its range.
      return numerics.operand == Operand::tf32_truncated ? Arithmetic::tf32_truncated
                                                         : Arithmetic::tf32_rounded;
    case Math::bf16: return Arithmetic::bf16;
    case Math::fp16: return Arithmetic::fp16;
  }
  return Arithmetic::unknown;
}

Arithmetic attest(Trial& trial, const ConvAlgorithm& algorithm, Queue& queue) {
  // A probe needs an element for each tap.
  const ConvProblem& problem = trial.problem();
  if (overlaps_itself(problem.x_extents(), problem.x_strides) ||
      overlaps_itself(problem.w_extents(), problem.w_strides))
    return Arithmetic::unknown;
  Prober probe(trial, algorithm, queue);
  if (probe.taps() == 0) return Arithmetic::unknown;
  const Arithmetic operand = operands(probe, problem.dtype);
  // Sums of three terms are needed to see the accumulator, which for these two is the question.
  const bool sums_matter = operand == Arithmetic::fp32 || operand == Arithmetic::fp16;
  const std::vector<std::size_t> places = probe.three_taps();
  if (places.empty()) return sums_matter ? Arithmetic::unknown : operand;
  if (!keeps(probe, places, 0x1p-14)) return Arithmetic::fp16_accumulate;
  if (operand == Arithmetic::fp32 && keeps(probe, places, 0x1p-29)) return Arithmetic::fp64;
  return operand;
}

}  // namespace plumb
