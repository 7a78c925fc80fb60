// The CPU's convolutions add to what y holds, in their own stores, on every instruction set.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "conv_case.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::cpu_conv;

namespace {

constexpr const char* accumulating[] = {"cpu.conv.direct.fp32",   "cpu.conv.panels.fp32",
                                        "cpu.conv.channels.fp32", "cpu.conv.direct.fp64",
                                        "cpu.conv.panels.fp64",   "cpu.conv.channels.fp64",
                                        "cpu.conv.images.fp32",   "cpu.conv.images.fp64"};

/// Runs every algorithm that accumulates and has to run, and counts outputs that are not the
/// oracle's plus the old one, activated and rounded. A NaN stands for any NaN.
void check_sums(Case& data, const std::vector<double>& before, Activation activation) {
  const std::vector<OracleTerm> oracle = data.oracle();
  for (const Device& device : devices_of_every_instruction_set())
    for (const char* algorithm : accumulating) {
      if (!runs(algorithm, data.problem)) continue;
      CAPTURE(algorithm, device.info().instruction_set, to_string(data.problem));
      ConvOptions options = forced(algorithm, activation);
      options.accumulate = true;
      for (const ConvCandidate& candidate : explain(device, data.problem, options))
        if (candidate.chosen) CHECK(candidate.accumulate_fused);
      std::size_t next = 0;
      data.y.fill([&] { return before[next++]; });
      data.run(device, options);
      CHECK(data.y.surroundings_untouched());
      const std::vector<double> y = data.y.values();
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double sum = oracle[i].y + before[i];
        const double wanted = activation == Activation::relu && sum < 0 ? 0 : sum;
        wrong +=
            std::isnan(wanted) ? !std::isnan(y[i]) : y[i] != rounded(data.problem.dtype, wanted);
      }
      CHECK(wrong == 0);
    }
}

}  // namespace

TEST_CASE("cpu conv: direct and panels add to what y holds") {
  Random random(41);
  int turn = 0;
  for (const ConvProblem& shape : shapes())
    for (ConvProblem problem : layouts(shape))
      for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
        if (is_sanitized && ++turn % 4 != 0) continue;
        problem.dtype = dtype;
        Case data(problem);
        data.fill([&] { return random.integer(-2, 2); });
        std::vector<double> before(data.y.values().size());
        for (double& value : before) value = static_cast<double>(random.integer(-3, 3));
        check_sums(data, before, dtype == DType::f16 ? Activation::none : Activation::relu);
      }
}

TEST_CASE("cpu conv: what y holds is added too where the padding meets Inf and NaN") {
  Case data(make(1, 2, 9, 20, 3, 3, 3, {.padding = Padding(1)}));
  data.fill([] { return 1; });
  data.w.set({0, 0, 0, 0}, std::numeric_limits<double>::infinity());
  data.w.set({1, 1, 2, 2}, std::nan(""));
  const std::vector<double> before(data.y.values().size(), 5);
  check_sums(data, before, Activation::relu);
}
