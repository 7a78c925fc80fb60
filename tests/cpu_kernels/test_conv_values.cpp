// Values that the CPU's convolution algorithms may not lose or round twice: NaN, Inf, halves,
// doubles.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "conv_case.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::cpu_conv;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("cpu conv: NaN and Inf come out where the oracle has them, and nowhere else") {
  const Device device = Device::open("cpu");
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    ConvProblem problem = make(2, 3, 9, 9, 4, 3, 3, geometry({1, 1}, {1, 1}, {1, 1, 1, 1}));
    problem.dtype = dtype;
    Random random(8);
    Case data(problem);
    data.fill([&] { return random.integer(1, 3); });
    data.x.set({0, 1, 4, 4}, std::numeric_limits<double>::quiet_NaN());
    data.x.set({0, 2, 0, 0}, infinity);
    data.x.set({1, 0, 8, 8}, -infinity);
    const std::vector<OracleTerm> oracle = data.oracle();
    for (const char* algorithm : algorithms)
      for (const Activation activation : {Activation::none, Activation::relu}) {
        data.run(device, forced(algorithm, activation));
        const std::vector<double> actual = data.y.values();
        int special = 0;
        for (std::size_t i = 0; i < oracle.size(); ++i) {
          const bool cut = activation == Activation::relu && oracle[i].y < 0;
          const double wanted = cut ? 0 : oracle[i].y;
          CHECK((std::isnan(wanted) ? std::isnan(actual[i]) : actual[i] == wanted));
          special += !std::isfinite(wanted);
        }
        // 9 outputs over the NaN, 4 in the corner of each infinity, of each of 4 channels.
        CHECK(special == (activation == Activation::relu ? 4 * (9 + 4) : 4 * (9 + 4 + 4)));
      }
  }
}

TEST_CASE("cpu conv: Inf and NaN in filters come out") {
  const Device device = Device::open("cpu");
  Case data(make(1, 2, 5, 5, 3, 2, 2));
  data.fill([] { return 1; });
  data.w.set({1, 0, 1, 1}, std::numeric_limits<double>::infinity());
  data.w.set({2, 1, 0, 0}, std::numeric_limits<double>::quiet_NaN());
  for (const char* algorithm : algorithms) {
    data.run(device, forced(algorithm));
    CHECK(data.y.at({0, 0, 2, 2}) == 9);
    CHECK(data.y.at({0, 1, 2, 2}) == std::numeric_limits<double>::infinity());
    CHECK(std::isnan(data.y.at({0, 2, 2, 2})));
  }
}

TEST_CASE("cpu conv: a tap in the padding contributes nothing, even where the filter is Inf") {
  const Device device = Device::open("cpu");
  // 1 2 over 3 4, a column of padding left; filter: Inf 1. The Inf meets the padding in the first
  // column of outputs, and pixels in the others.
  for (const DType dtype : {DType::f32, DType::f16}) {
    ConvProblem problem = make(1, 1, 2, 2, 1, 1, 2, geometry({1, 1}, {1, 1}, {0, 1, 0, 0}));
    problem.dtype = dtype;
    Case data(problem);
    data.x = HostTensor::of(dtype, {1, 1, 2, 2}, {1, 2, 3, 4});
    data.w = HostTensor::of(dtype, {1, 1, 1, 2}, {std::numeric_limits<double>::infinity(), 1});
    data.bias = HostTensor::of(dtype, {1}, {10});
    const double infinity = std::numeric_limits<double>::infinity();
    for (const char* algorithm : algorithms) {
      data.run(device, forced(algorithm));
      CHECK(data.y.values() == std::vector<double>{11, infinity, 13, infinity});
    }
  }
}

TEST_CASE("cpu conv: every half and bfloat16 is read and rounded as it should be") {
  const Device device = Device::open("cpu");
  // y = 1 * x + b, for every x: reads all values, and rounds sums of every size.
  for (const DType dtype : {DType::f16, DType::bf16}) {
    ConvProblem problem = make(1, 1, 256, 256, 4, 1, 1);
    problem.dtype = dtype;
    Case data(problem);
    auto* bits =
        const_cast<std::uint16_t*>(static_cast<const std::uint16_t*>(data.x.view().data()));
    for (int i = 0; i < 65536; ++i) bits[i] = static_cast<std::uint16_t>(i);
    data.w = HostTensor::of(dtype, {4, 1, 1, 1}, {1, 1, -0.00390625, 1.00390625});
    data.bias = HostTensor::of(dtype, {4}, {0, 0.1, 6.1e-5, 333});
    const std::vector<double> x = data.x.values();
    for (const char* algorithm : algorithms) {
      data.run(device, forced(algorithm));
      const std::vector<double> actual = data.y.values();
      int wrong = 0;
      for (std::size_t i = 0; i < actual.size(); ++i) {
        const auto k = static_cast<std::int64_t>(i / 65536);
        // Where the sum is not exact in binary32, fp32 and fp64 may differ by a last place.
        const double exact = x[i % 65536] * data.w.at({k, 0, 0, 0}) + data.bias.at({k});
        if (static_cast<float>(exact) != exact && !std::isnan(exact)) continue;
        const double expected = rounded(dtype, exact);
        wrong += std::isnan(expected) ? !std::isnan(actual[i]) : actual[i] != expected;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("cpu conv: fp64 results are rounded once") {
  const Device device = Device::open("cpu");
  ConvProblem problem = make(1, 3, 1, 1, 1, 1, 1);
  problem.dtype = DType::f16;
  Case data(problem);
  // 1 + 2^-11 + 2^-30 lies above the middle of 1 and its successor 1 + 2^-10. Rounded to binary32
  // first it would be the middle, and then go to the even 1.
  data.x = HostTensor::of(DType::f16, {1, 3, 1, 1}, {1, 0x1p-11, 0x1p-15});
  data.w = HostTensor::of(DType::f16, {1, 3, 1, 1}, {1, 1, 0x1p-15});
  data.bias = HostTensor::of(DType::f16, {1}, {0});
  data.run(device, forced("cpu.conv.im2col.fp64"));
  CHECK(data.y.at({0, 0, 0, 0}) == 1 + 0x1p-10);
  data.x.set({0, 2, 0, 0}, -0x1p-15);  // and now just below
  data.run(device, forced("cpu.conv.im2col.fp64"));
  CHECK(data.y.at({0, 0, 0, 0}) == 1);
}

TEST_CASE("cpu conv: tensors in f64 are refused by fp32 algorithms") {
  const Device device = Device::open("cpu");
  ConvProblem problem = make(1, 1, 3, 3, 1, 2, 2);
  const auto chosen = [&](Math math) {
    ConvOptions options;
    options.math = math;
    return ConvPlan(device, problem, options).algorithm().name;
  };
  problem.dtype = DType::f64;
  for (const char* fp32 : {"cpu.conv.direct.fp32", "cpu.conv.im2col.fp32"})
    REQUIRE_THROWS_MATCHES(ConvPlan(device, problem, {.algorithm = fp32}), Error,
                           MessageMatches(ContainsSubstring("f64")));
  CHECK(chosen(Math::fp32).ends_with("fp64"));
  problem.dtype = DType::f32;
  CHECK(chosen(Math::fp32).ends_with("fp32"));
  CHECK(chosen(Math::fp64).ends_with("fp64"));
}
