// Fields on the CPU: one to three dimensions, every boundary, accumulation, and filters of every
// width, on every instruction set.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "conv_case.hpp"
#include "plumb/validate.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::cpu_conv;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

constexpr const char* fields[] = {"cpu.conv.fields.fp32", "cpu.conv.fields.fp64",
                                  "cpu.conv.fields_spec.fp32", "cpu.conv.fields_spec.fp64"};

constexpr Boundary boundaries[] = {Boundary::zeros, Boundary::periodic, Boundary::reflect,
                                   Boundary::symmetric, Boundary::clamp};

ConvProblem field(Triple image, Triple filter, Padding padding, Boundaries boundary = {}) {
  ConvProblem p;
  p.d = image.d, p.h = image.h, p.w = image.w;
  p.t = filter.d, p.r = filter.h, p.s = filter.w;
  p.padding = padding, p.boundary = boundary;
  return p;
}

/// Runs every fields algorithm that has to run, on every instruction set, on integers: y is the
/// oracle's bit for bit, with the old y where `accumulate` asks.
void check_exactly(const ConvProblem& problem, bool accumulate, Random& random) {
  Case data(problem);
  data.fill([&] { return random.integer(-3, 3); });
  const std::vector<OracleTerm> oracle = data.oracle();
  HostTensor old(problem.dtype, data.problem.y_extents(), data.problem.y_strides);
  old.fill([&] { return random.integer(-3, 3); });
  const std::vector<double> before = old.values();
  int runs_done = 0;
  for (const Device& device : devices_of_every_instruction_set())
    for (const char* algorithm : fields) {
      if (!runs(algorithm, data.problem)) continue;
      CAPTURE(algorithm, device.info().instruction_set, to_string(data.problem), accumulate);
      std::size_t next = 0;
      data.y.fill([&] { return before[next++]; });
      ConvOptions options = forced(algorithm, Activation::relu);
      options.accumulate = accumulate;
      for (const ConvCandidate& candidate : explain(device, data.problem, options))
        if (candidate.chosen) {
          CHECK_FALSE(candidate.copies_input);
          CHECK(candidate.accumulate_fused == accumulate);
        }
      data.run(device, options);
      CHECK(data.y.surroundings_untouched());
      const std::vector<double> y = data.y.values();
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double sum = oracle[i].y + (accumulate ? before[i] : 0);
        wrong += y[i] != rounded(problem.dtype, std::max(sum, 0.0));
      }
      CHECK(wrong == 0);
      ++runs_done;
    }
  CHECK(runs_done > 0);
}

/// The bits of ordered sums are those of the plain loop, on every instruction set that has FMAs.
void check_bits(const ConvProblem& problem, Random& random) {
  Case data(problem);
  data.fill([&] { return random.normal(); });
  HostTensor expected(problem.dtype, data.problem.y_extents(), data.problem.y_strides);
  const bool is_double = problem.dtype == DType::f64;
  ConvOptions options = forced(fields[is_double ? 3 : 2]);
  options.reproducible = true;
  reproducible_conv(data.problem, options,
                    {data.x.view(), data.w.view(), data.bias.view(), expected.view()});
  for (const Device& device : devices_of_every_instruction_set()) {
    if (device.info().instruction_set == "sse2") continue;
    CAPTURE(device.info().instruction_set, to_string(data.problem));
    data.run(device, options);
    CHECK(data.y.values() == expected.values());
  }
}

}  // namespace

TEST_CASE("cpu fields: ordered sums have the specified bits with filters of every size") {
  Random random(36);
  for (std::int64_t taps = 1; taps <= 34; ++taps) {
    ConvProblem p = field({1, 40, 21}, {1, taps, 3}, {});
    check_bits(p, random);
    check_bits(field({1, 20, 71}, {1, 3, taps}, {1, 1}, Boundary::clamp), random);
    p = field({1, 2, 171}, {1, 1, taps}, {0, 1});
    p.dtype = taps % 2 ? DType::f64 : DType::f16;
    check_bits(p, random);
  }
  for (const std::int64_t taps : {63, 64, 65, 129, 150, 300})
    check_bits(field({1, 3, 700}, {1, 1, taps}, {0, taps / 2}, Boundary::reflect), random);
  ConvProblem p = field({8, 19, 40}, {2, 3, 4}, {1, 2, 3}, Boundary::symmetric);
  p.n = 2, p.c = 4, p.k = 6, p.groups = 2, p.dilation = Triple(2, 3, 2);
  check_bits(p, random);
}

TEST_CASE("cpu fields: one, two and three dimensions with every boundary") {
  Random random(31);
  for (const Boundary boundary : boundaries)
    for (const bool accumulate : {false, true}) {
      check_exactly(field({1, 1, 333}, {1, 1, 37}, {0, 18}, boundary), accumulate, random);
      check_exactly(field({1, 37, 41}, {1, 9, 9}, {5, 3}, boundary), accumulate, random);
      check_exactly(field({9, 18, 35}, {3, 5, 3}, {1, 2, 1}, boundary), accumulate, random);
    }
  check_exactly(field({7, 20, 20}, {5, 3, 3}, {3, 0, 2, 1, 4, 0},
                      {Boundary::periodic, Boundary::zeros, Boundary::reflect}),
                false, random);
}

TEST_CASE("cpu fields: every dtype, some channels and filters, groups and dilations") {
  Random random(32);
  int turn = 0;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const Triple& dilation : {Triple(1), Triple(2, 3, 2), Triple(1, 1, 3)}) {
      if (is_sanitized && ++turn % 4 != 0) continue;
      ConvProblem p = field({8, 19, 40}, {2, 3, 4}, {1, 2, 3}, Boundary::symmetric);
      p.n = 2, p.c = 4, p.k = 6, p.groups = 2, p.dtype = dtype, p.dilation = dilation;
      check_exactly(p, dtype == DType::bf16, random);
      p = field({1, 3, 200}, {1, 1, 40}, {0, 20}, Boundary::clamp);
      p.c = 2, p.k = 3, p.dtype = dtype, p.dilation = dilation;
      check_exactly(p, dtype == DType::f16, random);
    }
}

TEST_CASE("cpu fields: filters of every height and width in blocks of taps") {
  Random random(33);
  for (std::int64_t taps = 1; taps <= 34; ++taps) {
    check_exactly(field({1, 40, 21}, {1, taps, 2}, {}), false, random);
    check_exactly(field({1, 2, 71}, {1, 1, taps}, {0, 1}), false, random);
  }
}

TEST_CASE("cpu fields: a tap in zeros contributes nothing even where it is Inf or NaN") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Boundary boundary : {Boundary::zeros, Boundary::periodic})
    for (const bool wide : {false, true}) {
      Case data(wide ? field({1, 2, 60}, {1, 1, 33}, {0, 16}, boundary)
                     : field({3, 6, 20}, {3, 3, 3}, {1, 1, 1}, boundary));
      data.fill([] { return 1; });
      if (wide) {
        data.w.set({0, 0, 0, 2}, infinity);
        data.w.set({0, 0, 0, 0}, std::nan(""));
      } else {
        data.w.set({0, 0, 0, 1, 0}, infinity);
        data.w.set({0, 0, 2, 2, 2}, std::nan(""));
      }
      const std::vector<OracleTerm> oracle = data.oracle();
      for (const Device& device : devices_of_every_instruction_set())
        for (const char* algorithm : fields) {
          if (!runs(algorithm, data.problem)) continue;
          CAPTURE(algorithm, device.info().instruction_set, to_string(data.problem));
          data.run(device, forced(algorithm));
          const std::vector<double> y = data.y.values();
          std::size_t wrong = 0, finite = 0;
          for (std::size_t i = 0; i < y.size(); ++i) {
            wrong += std::isnan(oracle[i].y) ? !std::isnan(y[i]) : y[i] != oracle[i].y;
            finite += std::isfinite(oracle[i].y);
          }
          CHECK(wrong == 0);
          CHECK((finite > 0) == (boundary == Boundary::zeros));
        }
    }
}

TEST_CASE("cpu fields: an output beyond the caches is the direct convolution's") {
  // More than 16 MiB, which are stored past the caches, with a last row and columns of their own.
  Case data(field({1, 2051, 2080}, {1, 3, 3}, {1, 1}, Boundary::periodic));
  Random random(34);
  data.fill([&] { return random.integer(-3, 3); });
  const Device device = Device::open("cpu");
  data.run(device, forced("cpu.conv.direct.fp32"));
  const std::vector<std::byte> expected = data.y.bytes();
  data.y.fill([] { return 0; });
  data.run(device, forced("cpu.conv.fields.fp32"));
  CHECK(data.y.bytes() == expected);
}

TEST_CASE("cpu fields: a stride is refused by name, and no stride along an axis of one output") {
  const Device device = Device::open("cpu");
  ConvProblem p = field({1, 9, 9}, {1, 3, 3}, {});
  p.stride = {1, 2};
  REQUIRE_THROWS_MATCHES(ConvPlan(device, p, {.algorithm = fields[0]}), Error,
                         MessageMatches(ContainsSubstring("stride is 1 x 1 x 2")));
  p.w = 3;
  Random random(35);
  check_exactly(p, false, random);
}
