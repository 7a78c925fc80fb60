// Fills tensors for validation.
#include "test_data.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "../names.hpp"
#include "guarded_tensor.hpp"

namespace plumb {
namespace {

constexpr Name<DataKind> kinds[] = {{DataKind::integers, "integers"},
                                    {DataKind::normal, "normal"},
                                    {DataKind::positive, "positive"},
                                    {DataKind::wide, "wide"},
                                    {DataKind::wide_fp16, "wide_fp16"},
                                    {DataKind::non_finite, "non_finite"},
                                    {DataKind::tiny, "tiny"}};

/// Calls `draw` once for each element, in row-major order whatever the strides, so that every
/// placement of a problem gets the same numbers.
template <class Draw>
void fill_each(const TensorView& view, const Draw& draw) {
  for_each_offset(view.extents(), view.strides(),
                  [&](std::int64_t offset) { store_element(view, offset, draw()); });
}

/// A sign and a power of two drawn evenly, and digits behind it.
double wide_value(Random& random, double low_exponent, double high_exponent) {
  const double magnitude =
      std::exp2(low_exponent + random.uniform() * (high_exponent - low_exponent));
  return random.next() & 1 ? magnitude : -magnitude;
}

/// Products of two of these lie about the smallest number of the type that they are summed in;
/// those of f16 about that which is stored.
double tiny_value(Random& random, DType dtype) {
  if (random.next() % 8 == 0) return random.next() & 1 ? 0.0 : -0.0;
  switch (dtype) {
    case DType::f64: return wide_value(random, -541, -534);
    case DType::f16: return wide_value(random, -14, -8);
    case DType::f32:
    case DType::bf16: break;
  }
  return wide_value(random, -78, -71);
}

/// Of one element of what is written, and at least one: a sum over no images has none.
double terms_of(const ConvProblem& problem) {
  return static_cast<double>(std::max<std::int64_t>(problem.terms(), 1));
}

}  // namespace

std::string_view to_string(DataKind kind) { return name_of(kinds, kind); }

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

double exact_limit(DType dtype) { return dtype == DType::bf16 ? 0x1p8 : 0x1p11; }

/// Many terms make most of them zero.
void fill_integers(std::uint64_t seed, double share, const ConvProblem& problem,
                   const TensorView& x, const TensorView& w, const TensorView& bias,
                   const TensorView& before) {
  Random random(seed);
  constexpr std::int64_t largest_bias = 7;  // and old value of y
  const double limit = exact_limit(problem.dtype) - (before.empty() ? 1 : 2) * largest_bias;
  const double terms = terms_of(problem);
  // Values in [-largest, largest] without zeros, while even their largest sum stays in the limit;
  // beyond that, ones so sparse that the sum of |x||w| has its mean at a quarter of it, which is
  // more than twenty standard deviations away.
  const auto largest =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(std::sqrt(limit / terms)), 1, 5);
  const double density = share * (terms <= limit ? 1 : std::sqrt(limit / 4 / terms));
  const auto draw = [&] {
    if (random.uniform() >= density) return 0.0;
    const auto value = static_cast<double>(random.between(1, largest));
    return random.next() & 1 ? value : -value;
  };
  fill_each(x, draw);
  fill_each(w, draw);
  for (const TensorView* const added : {&bias, &before})
    if (!added->empty())
      fill_each(*added,
                [&] { return static_cast<double>(random.between(-largest_bias, largest_bias)); });
}

void fill(DataKind kind, std::uint64_t seed, const ConvProblem& problem, const TensorView& x,
          const TensorView& w, const TensorView& bias, const TensorView& before) {
  Random random(seed);
  const double scale = 1 / std::sqrt(terms_of(problem));
  const auto fill_all = [&](const auto& draw_x, const auto& draw_w) {
    fill_each(x, draw_x);
    fill_each(w, [&] { return scale * draw_w(); });
    if (!bias.empty()) fill_each(bias, draw_x);
    if (!before.empty()) fill_each(before, draw_x);
  };
  const auto normal = [&] { return random.normal(); };
  const bool small_range = kind == DataKind::wide_fp16 || problem.dtype == DType::f16;
  const auto wide = [&] {
    return small_range ? wide_value(random, -8, 4) : wide_value(random, -20, 20);
  };
  switch (kind) {
    case DataKind::integers: return fill_integers(seed, 1, problem, x, w, bias, before);
    case DataKind::normal: return fill_all(normal, normal);
    case DataKind::positive: {
      const auto positive = [&] { return 0.5 + random.uniform(); };
      return fill_all(positive, positive);
    }
    case DataKind::wide:
    case DataKind::wide_fp16: return fill_all(wide, wide);
    case DataKind::tiny: {
      const auto tiny = [&] { return tiny_value(random, problem.dtype); };
      return fill_all(tiny, tiny);
    }
    case DataKind::non_finite: {
      // Nothing finite that fp16 would round to zero: with Inf that would be NaN.
      const auto finite = [&](double factor) {
        const double value = factor * random.normal();
        return std::copysign(std::max(std::abs(value), 0x1p-14), value);
      };
      // About one pixel in 64, so that most outputs of a small filter stay finite. Sums over a
      // whole batch take fewer.
      const bool long_sums = problem.direction == Direction::backward_weights;
      const std::int64_t lots = long_sums ? std::max<std::int64_t>(192, 6 * problem.terms()) : 192;
      const auto seldom = [&] {
        const std::int64_t lot = random.between(0, lots - 1);
        if (lot == 0) return std::numeric_limits<double>::quiet_NaN();
        if (lot == 1) return std::numeric_limits<double>::infinity();
        if (lot == 2) return -std::numeric_limits<double>::infinity();
        return finite(1);
      };
      fill_each(x, seldom);
      fill_each(w, [&] { return finite(scale); });
      // An Inf in the first filter: in the padding it must not meet a zero and turn to NaN.
      if (element_count(w.extents()) > 0)
        store_element(w, 0, std::numeric_limits<double>::infinity());
      if (!bias.empty()) fill_each(bias, normal);
      if (!before.empty()) fill_each(before, seldom);
    }
  }
}

}  // namespace plumb
