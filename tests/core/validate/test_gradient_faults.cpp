// A gradient of an algorithm's own with faults in it: each is caught, in each direction.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <mutex>
#include <set>
#include <vector>

#include "plumb/plumb.hpp"

using namespace plumb;

namespace {

enum class Fault {
  none,
  lost_split,        ///< the sum's second half is not added
  missing_phase,     ///< pixels of the stride's last phase, or taps as far apart, stay zero
  border_tap_twice,  ///< the terms of the first column's first window are added twice
  swapped_groups,    ///< a group takes the filters, or the gradients, of the next one
  unflipped_filter,  ///< the taps are taken in the reverse order
};

/// Offsets of five indices; without a depth the third is 0 and has no stride.
std::int64_t offset(const Strides& strides, std::int64_t a, std::int64_t b, std::int64_t c,
                    std::int64_t d, std::int64_t e) {
  const int last = strides.rank() - 1;
  const std::int64_t plane = strides.rank() == 5 ? c * strides[2] : 0;
  return a * strides[0] + b * strides[1] + plane + d * strides[last - 1] + e * strides[last];
}

/// One product of the convolution: y[n,k,z,p,q] has x[n,c,d,h,v] w[k,c of its group,t,r,s].
struct Product {
  std::int64_t n, k, c, z, p, q, t, r, s, d, h, v;
};

/// Calls `visit` with each product of the convolution, in one order.
template <class Visit>
void for_each_product(const ConvProblem& m, const Visit& visit) {
  const std::int64_t channels = m.c / m.groups, filters = m.k / m.groups;
  Product i{};
  for (i.n = 0; i.n < m.n; ++i.n)
    for (i.k = 0; i.k < m.k; ++i.k)
      for (std::int64_t c = 0; c < channels; ++c)
        for (i.z = 0; i.z < m.z(); ++i.z)
          for (i.p = 0; i.p < m.p(); ++i.p)
            for (i.q = 0; i.q < m.q(); ++i.q)
              for (i.t = 0; i.t < m.t; ++i.t)
                for (i.r = 0; i.r < m.r; ++i.r)
                  for (i.s = 0; i.s < m.s; ++i.s) {
                    i.c = i.k / filters * channels + c;
                    i.d = i.z * m.stride.d + i.t * m.dilation.d - m.padding.front;
                    i.h = i.p * m.stride.h + i.r * m.dilation.h - m.padding.top;
                    i.v = i.q * m.stride.w + i.s * m.dilation.w - m.padding.left;
                    const bool inside =
                        i.d >= 0 && i.d < m.d && i.h >= 0 && i.h < m.h && i.v >= 0 && i.v < m.w;
                    if (inside) visit(i);
                  }
}

/// Adds each product to the element of the gradient that it is of, in fp32.
template <Fault fault>
void launch_copy(const ConvLaunch& launch, const KernelPlan*) {
  const ConvProblem& m = launch.problem;
  const bool of_data = m.direction == Direction::backward_data;
  const ConvOperand output = output_of(m);
  auto* const result = static_cast<float*>(launch.y);
  const auto *const image = static_cast<const float*>(launch.x), *const filters =
                                                                     static_cast<const float*>(
                                                                         launch.w);
  const auto* const bias = static_cast<const float*>(launch.bias);
  const bool deep = output.extents.rank() == 5;
  const auto for_each_element = [&](const auto& visit) {
    const Extents& e = output.extents;
    const int last = e.rank() - 1;
    for (std::int64_t a = 0; a < e[0]; ++a)
      for (std::int64_t b = 0; b < e[1]; ++b)
        for (std::int64_t c = 0; c < (deep ? e[2] : 1); ++c)
          for (std::int64_t d = 0; d < e[last - 1]; ++d)
            for (std::int64_t f = 0; f < e[last]; ++f)
              visit(result[offset(output.strides, a, b, c, d, f)], b);
  };
  for_each_element([&](float& value, std::int64_t c) { value = bias && of_data ? bias[c] : 0; });
  const std::int64_t channels = m.c / m.groups;
  for_each_product(m, [&](const Product& i) {
    if (fault == Fault::lost_split && (of_data ? i.k % 2 == 1 : i.n >= (m.n + 1) / 2)) return;
    const std::int64_t phase = of_data ? i.v : i.s;
    if (fault == Fault::missing_phase && m.stride.w > 1 && phase % m.stride.w == m.stride.w - 1)
      return;
    std::int64_t k = i.k, s = i.s;
    if (fault == Fault::swapped_groups) k = (k + m.k / m.groups) % m.k;
    if (fault == Fault::unflipped_filter) s = m.s - 1 - s;
    const std::int64_t c = i.c % channels;
    const auto y_at = [&](const Strides& strides, std::int64_t of) {
      return offset(strides, i.n, of, i.z, i.p, i.q);
    };
    const float term =
        of_data
            ? image[y_at(m.y_strides, i.k)] * filters[offset(m.w_strides, k, c, i.t, i.r, s)]
            : image[offset(m.x_strides, i.n, i.c, i.d, i.h, i.v)] * filters[y_at(m.y_strides, k)];
    const std::int64_t at = of_data ? offset(output.strides, i.n, i.c, i.d, i.h, i.v)
                                    : offset(output.strides, i.k, c, i.t, i.r, s);
    result[at] += term;
    if (fault == Fault::border_tap_twice && i.v == 0 && i.q == 0 && i.p == 0) result[at] += term;
  });
  if (launch.activation == Activation::relu)
    for_each_element([&](float& value, std::int64_t) { value = value < 0 ? 0 : value; });
}

template <Fault fault>
constexpr ConvAlgorithm copy_with = {
    .name = "cpu.conv.gradient.copy.fp32",
    .numerics = {},
    .takes_depth = true,
    .takes_backward_data = true,
    .takes_backward_weights = true,
    .plan = [](const ConvProblem& problem, const DeviceInfo&) -> PlanResult {
      if (problem.direction == Direction::forward) return {{Reason::direction, "gradients alone"}};
      if (problem.dtype == DType::f32) return {.estimate_seconds = 1};
      return {{Reason::dtype, "the copy is for f32"}};
    },
    .launch = launch_copy<fault>,
};

std::vector<ValidationCase> cases(Direction direction) {
  std::vector<ValidationCase> all;
  for (const char* text :
       {"mb3ic4ih7iw8oc6kh3ph1", "g2mb2ic4ih9iw8oc6kh3sh2ph1", "mb2ic3ih8iw9oc4kh2kw3sh3ph1dh1",
        "mb2ic2id4ih5iw6oc3kd2kh3kw3pd1ph1pw1", "mb2ic2ih6iw7oc4kh3ph1_padreflect"}) {
    ConvProblem problem = parse_problem(text).problem;
    problem.direction = direction;
    all.push_back(validation_case("", problem, Placement::nchw));
    all.back().bias = all.size() % 2 == 0;
    all.back().accumulate = all.size() == 2 || all.size() == 5;
  }
  return all;
}

std::set<Tier> tiers_that_caught(const ConvAlgorithm* copy, Direction direction) {
  std::set<Tier> caught;
  for (const ValidationCase& test : cases(direction))
    for (const ValidationRecord& record :
         validate(Device::open("cpu"), {&copy, 1}, test, {.seed = 7})) {
      REQUIRE(record.verdict != Verdict::unsupported);
      if (record.verdict == Verdict::fail) caught.insert(record.tier);
    }
  return caught;
}

}  // namespace

TEST_CASE("gradients: planted faults are caught", "[faults]") {
  const struct {
    const char* name;
    const ConvAlgorithm* copy;
  } faults[] = {{"lost_split", &copy_with<Fault::lost_split>},
                {"missing_phase", &copy_with<Fault::missing_phase>},
                {"border_tap_twice", &copy_with<Fault::border_tap_twice>},
                {"swapped_groups", &copy_with<Fault::swapped_groups>},
                {"unflipped_filter", &copy_with<Fault::unflipped_filter>}};
  for (const Direction direction : {Direction::backward_data, Direction::backward_weights}) {
    CAPTURE(to_string(direction));
    CHECK(tiers_that_caught(&copy_with<Fault::none>, direction).empty());
    for (const auto& [name, copy] : faults) {
      const std::set<Tier> caught = tiers_that_caught(copy, direction);
      fmt::print("{:<17} {:<17} caught by {} tiers\n", to_string(direction), name, caught.size());
      CAPTURE(name);
      CHECK(caught.contains(Tier::exact));
    }
  }
}

TEST_CASE("gradients: a bias that the algorithm writes is found") {
  ConvAlgorithm writes = copy_with<Fault::none>;
  writes.launch = [](const ConvLaunch& launch, const KernelPlan* plan) {
    // validate() launches it from several threads, which share the bias.
    static std::mutex one_at_a_time;
    const std::scoped_lock lock(one_at_a_time);
    launch_copy<Fault::none>(launch, plan);
    const_cast<float*>(static_cast<const float*>(launch.bias))[0] += 1;
  };
  const ConvAlgorithm* const algorithms[] = {&writes};
  ValidationCase test = cases(Direction::backward_data)[0];
  test.bias = true;
  test.accumulate = false;
  bool found = false;
  for (const ValidationRecord& record : validate(Device::open("cpu"), algorithms, test, {}))
    found = found || (record.verdict == Verdict::fail &&
                      record.sentence.find("the input bias was written") != std::string::npos);
  CHECK(found);
}

TEST_CASE("gradients: an algorithm's own is asked before forward convolutions") {
  const Device cpu = Device::open("cpu");
  for (const Direction direction : {Direction::backward_data, Direction::backward_weights}) {
    ConvProblem problem = parse_problem("mb2ic3ih8oc4kh3sh2ph1_padclamp").problem;
    problem.direction = direction;
    problem = check(problem);
    const ConvCandidate own = ask(copy_with<Fault::none>, problem, cpu.info(), true);
    CHECK(own.support);
    CHECK(own.forward_convolutions == 0);
    CHECK_FALSE(own.accumulate_fused);  // it does not declare that it adds
    ConvProblem other = problem;
    other.dtype = DType::f64;
    CHECK(ask(copy_with<Fault::none>, other, cpu.info()).support.reason == Reason::direction);
  }
}
