// The oracle against cases worked by hand: everything else is held against it.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "support/host_tensor.hpp"

using namespace plumb;
using plumb_test::HostTensor;
using Values = std::vector<double>;

namespace {

/// x 1x1xHxW, w 1x1xRxS.
ConvProblem single_channel(std::int64_t h, std::int64_t w, std::int64_t r, std::int64_t s) {
  ConvProblem problem;
  problem.h = h;
  problem.w = w;
  problem.r = r;
  problem.s = s;
  return problem;
}

/// What the oracle says, y and the magnitudes each as a list in N K P Q order.
struct Result {
  Values y, magnitude, x_magnitude, w_magnitude;
};

Result oracle(const ConvProblem& problem, const Values& x, const Values& w,
              const Values& bias = {}) {
  const ConvProblem checked = check(problem);
  const DType dtype = checked.dtype;
  const HostTensor xs = HostTensor::of(dtype, checked.x_extents(), x, checked.x_strides);
  const HostTensor ws = HostTensor::of(dtype, checked.w_extents(), w, checked.w_strides);
  const auto terms = bias.empty() ? conv_oracle(checked, xs.view(), ws.view())
                                  : conv_oracle(checked, xs.view(), ws.view(),
                                                HostTensor::of(dtype, {checked.k}, bias).view());
  Result result;
  for (const OracleTerm& term : terms) {
    result.y.push_back(term.y);
    result.magnitude.push_back(term.magnitude);
    result.x_magnitude.push_back(term.x_magnitude);
    result.w_magnitude.push_back(term.w_magnitude);
  }
  return result;
}

}  // namespace

TEST_CASE("oracle: a 2x2 filter on a 3x3 image is a cross-correlation") {
  const auto [y, magnitude, x_magnitude, w_magnitude] =
      oracle(single_channel(3, 3, 2, 2), {1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4}, {-50});
  // 1*1 + 2*2 + 4*3 + 5*4 = 37,  2*1 + 3*2 + 5*3 + 6*4 = 47
  // 4*1 + 5*2 + 7*3 + 8*4 = 67,  5*1 + 6*2 + 8*3 + 9*4 = 77
  REQUIRE(y == Values{37 - 50, 47 - 50, 67 - 50, 77 - 50});
  REQUIRE(magnitude == Values{37 + 50, 47 + 50, 67 + 50, 77 + 50});
  REQUIRE(x_magnitude == Values{1 + 2 + 4 + 5, 2 + 3 + 5 + 6, 4 + 5 + 7 + 8, 5 + 6 + 8 + 9});
  REQUIRE(w_magnitude == Values{10, 10, 10, 10});
}

TEST_CASE("oracle: the magnitude does not cancel") {
  const Result result = oracle(single_channel(1, 3, 1, 3), {1, -2, 3}, {5, 4, 1});
  REQUIRE(result.y == Values{5 - 8 + 3});
  REQUIRE(result.magnitude == Values{5 + 8 + 3});
}

TEST_CASE("oracle: each of the four paddings is its own") {
  ConvProblem problem = single_channel(2, 2, 2, 2);
  const Values x{1, 2, 3, 4}, w{1, 10, 100, 1000};
  SECTION("top 1, left 2") {
    problem.padding = {1, 2, 0, 0};
    // 0 0 0 0
    // 0 0 1 2
    // 0 0 3 4
    // Under the last output lie all four pixels, under the others what is left of the image.
    REQUIRE(oracle(problem, x, w).w_magnitude == Values{0, 1000, 1100, 0, 1010, 1111});
    REQUIRE(oracle(problem, x, w).y == Values{0, 1000, 2100, 0, 10 + 3000, 1 + 20 + 300 + 4000});
  }
  SECTION("bottom 1, right 2") {
    problem.padding = {0, 0, 1, 2};
    // 1 2 0 0
    // 3 4 0 0
    // 0 0 0 0
    REQUIRE(oracle(problem, x, w).y == Values{1 + 20 + 300 + 4000, 2 + 400, 0, 3 + 40, 4, 0});
  }
}

TEST_CASE("oracle: dilation spreads the taps, 2 down and 3 across") {
  ConvProblem problem = single_channel(3, 4, 2, 2);
  problem.dilation = {2, 3};
  // 1 . . 4      1 -- 10
  // . . . .      |     |
  // 9 . . 12   100 - 1000
  REQUIRE(oracle(problem, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {1, 10, 100, 1000}).y ==
          Values{1 + 40 + 900 + 12000});
}

TEST_CASE("oracle: strides differ in height and width, and may be larger than the filter") {
  ConvProblem problem = single_channel(3, 4, 1, 1);
  problem.stride = {2, 3};
  // rows 0 and 2, columns 0 and 3 of 1..12
  REQUIRE(oracle(problem, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {2}).y == Values{2, 8, 18, 24});
}

TEST_CASE("oracle: stride, dilation and padding together") {
  ConvProblem problem = single_channel(1, 5, 1, 2);
  problem.stride.w = 3;
  problem.dilation.w = 2;
  problem.padding = {0, 1};
  // columns -1 .. 5: 0 [1 2 3 4 5] 0, taps two apart, from -1 and from 2
  REQUIRE(oracle(problem, {1, 2, 3, 4, 5}, {1, 10}).y == Values{0 + 20, 3 + 50});
}

TEST_CASE("oracle: batch, channels and filters") {
  ConvProblem problem;
  problem.n = 2;
  problem.c = 2;
  problem.k = 3;
  // x[n,c]: n=0: 1 2, n=1: 3 4; w[k,c]: (1 0) (0 1) (10 100)
  const Result result = oracle(problem, {1, 2, 3, 4}, {1, 0, 0, 1, 10, 100}, {0.5, 0, -1000});
  REQUIRE(result.y == Values{1.5, 2, 10 + 200 - 1000, 3.5, 4, 30 + 400 - 1000});
  REQUIRE(result.magnitude == Values{1.5, 2, 1210, 3.5, 4, 1430});
}

TEST_CASE("oracle: a group sees its own channels") {
  ConvProblem problem;
  problem.c = 4;
  problem.k = 2;
  problem.groups = 2;
  // filter 0: 10*1 + 100*2, filter 1: 1000*3 + 10000*4
  REQUIRE(oracle(problem, {1, 2, 3, 4}, {10, 100, 1000, 10000}).y == Values{210, 43000});
}

TEST_CASE("oracle: depthwise, two filters for each channel") {
  ConvProblem problem;
  problem.c = 2;
  problem.k = 4;
  problem.groups = 2;
  REQUIRE(oracle(problem, {3, 7}, {1, 10, 100, 1000}).y == Values{3, 30, 700, 7000});
}

TEST_CASE("oracle: strides say where elements lie, not what they mean") {
  ConvProblem problem;
  problem.c = 2;
  problem.h = 2;
  problem.w = 3;
  problem.r = 2;
  problem.s = 2;
  const Values x{1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60}, w{1, 0, 0, 1, 0, 2, 1, 0};
  // channel 0: x00 + x11: 1+5, 2+6; channel 1: 2 x01 + x10: 2*20+40, 2*30+50
  const Values expected{6 + 80, 8 + 110};
  REQUIRE(oracle(problem, x, w).y == expected);
  SECTION("NHWC") {
    problem.x_strides = strides_for(Layout::nhwc, problem.x_extents());
    problem.w_strides = strides_for(Layout::nhwc, problem.w_extents());
    REQUIRE(oracle(problem, x, w).y == expected);
  }
  SECTION("every other element, backwards") {
    problem.x_strides = {-24, -12, -6, -2};
    problem.w_strides = {8, -4, 2, -1};
    REQUIRE(oracle(problem, x, w).y == expected);
  }
  SECTION("one row for all rows") {
    problem.x_strides = {0, 3, 0, 1};
    // writing rows in order leaves the last: 4 5 6 and 40 50 60
    REQUIRE(oracle(problem, x, w).y == Values{(4 + 5) + (2 * 50 + 40), (5 + 6) + (2 * 60 + 50)});
  }
}

TEST_CASE("oracle: elements count exactly as they are stored") {
  ConvProblem problem = single_channel(1, 2, 1, 1);
  SECTION("f16 of 0.1 is 1638 / 2^14") {
    problem.dtype = DType::f16;
    REQUIRE(oracle(problem, {0.1, 65504}, {1}).y == Values{1638 / 16384.0, 65504});
  }
  SECTION("bf16 of 0.1 is 205 / 2^11") {
    problem.dtype = DType::bf16;
    REQUIRE(oracle(problem, {0.1, 1e38}, {2}).y[0] == 205 / 1024.0);
  }
  SECTION("f32 of 0.1 is 13421773 / 2^27") {
    REQUIRE(oracle(problem, {0.1, 3}, {1}).y == Values{13421773 / 134217728.0, 3});
  }
  SECTION("f64 of 0.1") {
    problem.dtype = DType::f64;
    REQUIRE(oracle(problem, {0.1, 3}, {1}).y == Values{0.1, 3});
  }
}

TEST_CASE("oracle: sums in double") {
  // fp32 would lose the 1 beside 2^24, and overflow at 2^128.
  REQUIRE(oracle(single_channel(1, 2, 1, 2), {16777216, 1}, {1, 1}).y == Values{16777217});
  REQUIRE(oracle(single_channel(1, 1, 1, 1), {0x1p100}, {0x1p100}).y == Values{0x1p200});
}

TEST_CASE("oracle: pooled, the largest of four, and what bounds the worst of them") {
  ConvProblem problem = single_channel(3, 5, 1, 1);
  problem.pool = Pool::max_2x2;
  // 1 -8 | 3  4 | 5
  // 2 -6 | 9 -7 | 0    a third row and a fifth column are dropped
  const Values x{1, -8, 3, 4, 5, 2, -6, 9, -7, 0, 99, 99, 99, 99, 99};
  const auto [y, magnitude, x_magnitude, w_magnitude] = oracle(problem, x, {10}, {-3});
  REQUIRE(y == Values{17, 87});
  REQUIRE(magnitude == Values{83, 93});
  REQUIRE(x_magnitude == Values{8, 9});
  REQUIRE(w_magnitude == Values{10, 10});
}

TEST_CASE("oracle: in a pooling NaN stays, and -Inf does not count") {
  ConvProblem problem = single_channel(2, 2, 1, 1);
  problem.pool = Pool::max_2x2;
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < 4; ++i) {
    Values x{-4, 3, -2, 1};
    x[i] = std::numeric_limits<double>::quiet_NaN();
    REQUIRE(std::isnan(oracle(problem, x, {1}).y[0]));
    x[(i + 1) % 4] = -inf;
    REQUIRE(std::isnan(oracle(problem, x, {1}).y[0]));
    x = {-4, -4, -4, -4};
    x[i] = -inf;
    REQUIRE(oracle(problem, x, {1}).y == Values{-4});
    REQUIRE(oracle(problem, x, {1}).magnitude == Values{4});
    x[i] = inf;
    REQUIRE(oracle(problem, x, {1}).y == Values{inf});
  }
  REQUIRE(oracle(problem, {-inf, -inf, -inf, -inf}, {1}).y == Values{-inf});
}

TEST_CASE("oracle: no images, no results") {
  ConvProblem problem;
  problem.n = 0;
  REQUIRE(oracle(problem, {}, {1}).y.empty());
}
