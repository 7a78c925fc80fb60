// The reproducible tier passes a plain copy of each direction, and catches each way in which sums
// come out right and yet with other bits.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <set>

#include "plumb/gradient_tree.hpp"
#include "support/devices.hpp"

using namespace plumb;

namespace {

enum class Fault {
  none,
  columns_first,    ///< s before r
  channels_last,    ///< c within r and s
  bias_first,       ///< the chain begins at the bias
  split_sum,        ///< two chains, added
  rounded_product,  ///< multiplied, then added
  old_first,        ///< what y holds is added before the bias
  sign_of_zero,     ///< -0 is stored
  wider_sum,        ///< in double, rounded once
  other_lanes,      ///< of dw: eight chains
  no_tree,          ///< of dw: segments one after the other
  rising_taps,      ///< of dx: the taps rise
};

float fused(Fault fault, float a, float b, float sum) {
  if (fault != Fault::rounded_product) return std::fma(a, b, sum);
  volatile float product = a * b;
  return product + sum;
}

/// One element of a 2-D problem in f32 with zeros around it and no groups.
template <Fault fault>
class Copy {
 public:
  explicit Copy(const ConvLaunch& launch) : call_(launch), p_(launch.problem) {}

  void run() const {
    const ConvOperand output = output_of(p_);
    const Extents& e = output.extents;
    auto* const to = static_cast<float*>(call_.y);
    for (std::int64_t a = 0; a < e[0]; ++a)
      for (std::int64_t b = 0; b < e[1]; ++b)
        for (std::int64_t c = 0; c < e[2]; ++c)
          for (std::int64_t d = 0; d < e[3]; ++d) {
            float& y = to[a * output.strides[0] + b * output.strides[1] + c * output.strides[2] +
                          d * output.strides[3]];
            y = finished(a, b, c, d, y);
          }
  }

 private:
  float at(const void* data, const Strides& s, std::int64_t a, std::int64_t b, std::int64_t c,
           std::int64_t d) const {
    return static_cast<const float*>(data)[a * s[0] + b * s[1] + c * s[2] + d * s[3]];
  }
  bool inside(std::int64_t h, std::int64_t w) const {
    return h >= 0 && h < p_.h && w >= 0 && w < p_.w;
  }

  float finished(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d, float old) const {
    const bool of_weights = p_.direction == Direction::backward_weights;
    const float bias = call_.bias && !of_weights ? static_cast<const float*>(call_.bias)[b] : 0.0f;
    float sum = 0;
    if (p_.direction == Direction::forward) sum = forward(a, b, c, d, bias);
    if (p_.direction == Direction::backward_data) sum = of_data(a, b, c, d);
    if (of_weights) sum = weights(a, b, c, d);
    if (fault == Fault::old_first && call_.accumulate) sum += old;
    if (call_.bias && !of_weights && fault != Fault::bias_first) sum += bias;
    if (fault != Fault::old_first && call_.accumulate) sum += old;
    if (call_.activation == Activation::relu && sum < 0) sum = 0;
    return fault == Fault::sign_of_zero ? sum : sum + 0.0f;
  }

  float forward(std::int64_t n, std::int64_t k, std::int64_t p, std::int64_t q, float bias) const {
    float sums[2] = {fault == Fault::bias_first ? bias : 0.0f, 0};
    double wide = 0;
    const auto add = [&](std::int64_t c, std::int64_t r, std::int64_t s) {
      const std::int64_t h = p * p_.stride.h + r * p_.dilation.h - p_.padding.top;
      const std::int64_t w = q * p_.stride.w + s * p_.dilation.w - p_.padding.left;
      if (!inside(h, w)) return;
      const float x = at(call_.x, p_.x_strides, n, c, h, w);
      const float f = at(call_.w, p_.w_strides, k, c, r, s);
      float& sum = sums[fault == Fault::split_sum && c >= (p_.c + 1) / 2 ? 1 : 0];
      sum = fused(fault, x, f, sum);
      wide += double{x} * double{f};
    };
    if (fault == Fault::channels_last) {
      for (std::int64_t r = 0; r < p_.r; ++r)
        for (std::int64_t s = 0; s < p_.s; ++s)
          for (std::int64_t c = 0; c < p_.c; ++c) add(c, r, s);
    } else if (fault == Fault::columns_first) {
      for (std::int64_t c = 0; c < p_.c; ++c)
        for (std::int64_t s = 0; s < p_.s; ++s)
          for (std::int64_t r = 0; r < p_.r; ++r) add(c, r, s);
    } else {
      for (std::int64_t c = 0; c < p_.c; ++c)
        for (std::int64_t r = 0; r < p_.r; ++r)
          for (std::int64_t s = 0; s < p_.s; ++s) add(c, r, s);
    }
    if (fault == Fault::wider_sum) return static_cast<float>(wide);
    return fault == Fault::split_sum ? sums[0] + sums[1] : sums[0];
  }

  float of_data(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    float sum = 0;
    for (std::int64_t k = 0; k < p_.k; ++k)
      for (std::int64_t i = 0; i < p_.r * p_.s; ++i) {
        const std::int64_t tap = fault == Fault::rising_taps ? i : p_.r * p_.s - 1 - i;
        const std::int64_t r = tap / p_.s, s = tap % p_.s;
        const std::int64_t top = h + p_.padding.top - r * p_.dilation.h;
        const std::int64_t left = w + p_.padding.left - s * p_.dilation.w;
        if (top < 0 || left < 0 || top % p_.stride.h != 0 || left % p_.stride.w != 0) continue;
        const std::int64_t p = top / p_.stride.h, q = left / p_.stride.w;
        if (p >= p_.p() || q >= p_.q()) continue;
        sum = fused(fault, at(call_.x, p_.y_strides, n, k, p, q),
                    at(call_.w, p_.w_strides, k, c, r, s), sum);
      }
    return sum;
  }

  float weights(std::int64_t k, std::int64_t c, std::int64_t r, std::int64_t s) const {
    const GradientTree tree(p_);
    std::vector<float> sums;
    for (std::int64_t i = 0; i < tree.segments; ++i) sums.push_back(segment(tree, i, k, c, r, s));
    if (fault == Fault::no_tree) {
      float sum = 0;
      for (const float one : sums) sum += one;
      return sum;
    }
    for (std::size_t step = 1; step < sums.size(); step *= 2)
      for (std::size_t i = 0; i + step < sums.size(); i += 2 * step) sums[i] += sums[i + step];
    return sums.empty() ? 0 : sums[0];
  }

  float segment(const GradientTree& tree, std::int64_t index, std::int64_t k, std::int64_t c,
                std::int64_t r, std::int64_t s) const {
    constexpr int lanes = fault == Fault::other_lanes ? 8 : 16;
    float sums[lanes] = {};
    const auto at_segment = tree.at(index, p_.p());
    for (std::int64_t n = at_segment.plane; n < at_segment.plane + at_segment.planes; ++n)
      for (std::int64_t p = at_segment.p; p < at_segment.p + at_segment.rows; ++p)
        for (std::int64_t q = 0; q < p_.q(); ++q) {
          const std::int64_t h = p * p_.stride.h + r * p_.dilation.h - p_.padding.top;
          const std::int64_t w = q * p_.stride.w + s * p_.dilation.w - p_.padding.left;
          if (inside(h, w))
            sums[q % lanes] = fused(fault, at(call_.x, p_.x_strides, n, c, h, w),
                                    at(call_.w, p_.y_strides, n, k, p, q), sums[q % lanes]);
        }
    for (int half = lanes / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
    return sums[0];
  }

  const ConvLaunch& call_;
  const ConvProblem& p_;
};

template <Fault fault>
constexpr ConvAlgorithm copy_with = {
    .name = "cpu.conv.plain.copy.fp32",
    .numerics = {.reproducible = true, .invariant = true},
    .accumulates = true,
    .takes_backward_data = true,
    .takes_backward_weights = true,
    .plan = [](const ConvProblem& problem, const DeviceInfo&) -> PlanResult {
      if (problem.dtype == DType::f32 && problem.groups == 1) return {.estimate_seconds = 1};
      return {{Reason::dtype, "the copy is for f32"}};
    },
    .launch = [](const ConvLaunch& launch, const KernelPlan*) { Copy<fault>(launch).run(); },
};

std::vector<ValidationCase> cases(Direction direction) {
  std::vector<ValidationCase> all;
  for (const char* text :
       {"mb3ic4ih7iw8oc6kh3ph1", "mb2ic4ih9iw38oc6kh3sh2ph1", "mb2ic3ih8iw9oc4kh2kw3sh3ph1dh1",
        "mb7ic2ih70iw80oc2kh3ph1", "mb2ic2ih6iw7oc4kh3ph1_padreflect"}) {
    ConvProblem problem = parse_problem(text).problem;
    problem.direction = direction;
    all.push_back(validation_case("", problem, Placement::nchw));
    all.back().bias = all.size() % 2 == 0;
    all.back().accumulate = all.size() >= 2;
  }
  return all;
}

/// The first failure that the tier finds, or nothing.
std::string found(const ConvAlgorithm& copy, Direction direction) {
  const ConvAlgorithm* const only = &copy;
  for (const ValidationCase& test : cases(direction))
    for (const ValidationRecord& record :
         validate(Device::open("cpu"), {&only, 1}, test, {.tiers = {Tier::reproducible}})) {
      REQUIRE(record.verdict != Verdict::unsupported);
      if (record.verdict == Verdict::fail) return record.sentence;
    }
  return {};
}

}  // namespace

TEST_CASE("reproducible tier: a plain copy has the bits", "[faults]") {
  for (const Direction direction :
       {Direction::forward, Direction::backward_data, Direction::backward_weights})
    CHECK(found(copy_with<Fault::none>, direction) == "");
}

TEST_CASE("reproducible tier: other orders and roundings are caught", "[faults]") {
  const auto caught = [](const char* name, const ConvAlgorithm& copy, Direction direction) {
    CAPTURE(name, to_string(direction));
    CHECK(found(copy, direction) != "");
  };
  const Direction forward = Direction::forward, data = Direction::backward_data,
                  weights = Direction::backward_weights;
  caught("columns_first", copy_with<Fault::columns_first>, forward);
  caught("channels_last", copy_with<Fault::channels_last>, forward);
  caught("bias_first", copy_with<Fault::bias_first>, forward);
  caught("split_sum", copy_with<Fault::split_sum>, forward);
  caught("old_first", copy_with<Fault::old_first>, forward);
  caught("sign_of_zero", copy_with<Fault::sign_of_zero>, forward);
  caught("wider_sum", copy_with<Fault::wider_sum>, forward);
  caught("other_lanes", copy_with<Fault::other_lanes>, weights);
  caught("no_tree", copy_with<Fault::no_tree>, weights);
  caught("rising_taps", copy_with<Fault::rising_taps>, data);
  for (const Direction direction : {forward, data, weights})
    caught("rounded_product", copy_with<Fault::rounded_product>, direction);
}

TEST_CASE("reproducible tier: what does not claim the bits is not judged", "[faults]") {
  ConvAlgorithm modest = copy_with<Fault::split_sum>;
  modest.numerics.reproducible = false;
  CHECK(found(modest, Direction::forward) == "");
}
