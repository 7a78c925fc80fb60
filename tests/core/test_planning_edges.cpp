// Conditions of planning at their edges, where a change of one of them showed nowhere else.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <random>
#include <string>
#include <vector>

#include "support/devices.hpp"
#include "support/host_tensor.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// Where `problem.*size` is one less than it may be, and nothing else is wrong.
struct Least {
  const char* name;
  std::int64_t& (*size)(ConvProblem&);
  std::int64_t least;
};
const Least sizes[] = {
    {"N", [](ConvProblem& p) -> std::int64_t& { return p.n; }, 0},
    {"C", [](ConvProblem& p) -> std::int64_t& { return p.c; }, 1},
    {"H", [](ConvProblem& p) -> std::int64_t& { return p.h; }, 1},
    {"W", [](ConvProblem& p) -> std::int64_t& { return p.w; }, 1},
    {"K", [](ConvProblem& p) -> std::int64_t& { return p.k; }, 1},
    {"R", [](ConvProblem& p) -> std::int64_t& { return p.r; }, 1},
    {"S", [](ConvProblem& p) -> std::int64_t& { return p.s; }, 1},
    {"groups", [](ConvProblem& p) -> std::int64_t& { return p.groups; }, 1},
    {"stride.h", [](ConvProblem& p) -> std::int64_t& { return p.stride.h; }, 1},
    {"stride.w", [](ConvProblem& p) -> std::int64_t& { return p.stride.w; }, 1},
    {"dilation.h", [](ConvProblem& p) -> std::int64_t& { return p.dilation.h; }, 1},
    {"dilation.w", [](ConvProblem& p) -> std::int64_t& { return p.dilation.w; }, 1},
    {"padding.top", [](ConvProblem& p) -> std::int64_t& { return p.padding.top; }, 0},
    {"padding.left", [](ConvProblem& p) -> std::int64_t& { return p.padding.left; }, 0},
    {"padding.bottom", [](ConvProblem& p) -> std::int64_t& { return p.padding.bottom; }, 0},
    {"padding.right", [](ConvProblem& p) -> std::int64_t& { return p.padding.right; }, 0}};

ConvProblem problem_of(std::int64_t c, std::int64_t h, std::int64_t w, std::int64_t k,
                       std::int64_t r, std::int64_t s) {
  ConvProblem problem;
  problem.n = 1, problem.c = c, problem.h = h, problem.w = w;
  problem.k = k, problem.r = r, problem.s = s;
  return problem;
}

Support support_of(const char* algorithm, const ConvProblem& problem) {
  for (const ConvCandidate& one : explain(Device::open("cpu"), problem, {.algorithm = algorithm}))
    if (one.algorithm == algorithm) return one.support;
  return {Reason::not_forced, "there is no such algorithm"};
}

/// Small integers, against the oracle to the bit; what is no element of y stays as it was.
void holds_exactly(const ConvProblem& given, const char* algorithm) {
  const ConvProblem problem = check(given);
  HostTensor x(problem.dtype, problem.x_extents(), problem.x_strides),
      w(problem.dtype, problem.w_extents(), problem.w_strides),
      y(problem.dtype, problem.y_extents(), problem.y_strides);
  std::mt19937 random(1);
  const auto small = [&] { return static_cast<double>(static_cast<int>(random() % 7) - 3); };
  x.fill(small);
  w.fill(small);
  Queue queue(Device::open("cpu"));
  ConvPlan(queue.device(), problem, {.algorithm = algorithm})
      .execute(queue, {.x = x.view(), .w = w.view(), .y = y.view()});
  const std::vector<OracleTerm> expected = conv_oracle(problem, x.view(), w.view(), {});
  const std::vector<double> found = y.values();
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) REQUIRE(found[i] == expected[i].y);
  REQUIRE(y.surroundings_untouched());
}

}  // namespace

TEST_CASE("edges: each size is refused by its own name, one below its least") {
  ConvProblem problem = problem_of(6, 9, 10, 4, 2, 3);
  problem.groups = 2;
  for (const Least& one : sizes) {
    ConvProblem wrong = problem;
    one.size(wrong) = one.least - 1;
    const std::string expected = std::string(one.name) + " is " + std::to_string(one.least - 1) +
                                 "; expected at least " + std::to_string(one.least);
    REQUIRE_THROWS_MATCHES(check(wrong), Error, MessageMatches(ContainsSubstring(expected)));
    ConvProblem least = problem_of(6, 9, 10, 4, 1, 1);
    one.size(least) = one.least;
    REQUIRE_NOTHROW(check(least));
  }
}

TEST_CASE("edges: the layout of x is checked over x's extents") {
  ConvProblem problem = problem_of(1, 5, 1, 1, 5, 1);  // one output, of five rows
  problem.x_strides = {1, 1, std::int64_t{1} << 57, 1};
  REQUIRE_THROWS_MATCHES(check(problem), Error, MessageMatches(ContainsSubstring("x has stride")));
}

TEST_CASE("edges: what pools has as many products as its outputs before the pooling") {
  const std::int64_t many = std::int64_t{1} << 33;
  ConvProblem tall = problem_of(1, many, 2, 1, 1, 1), wide = problem_of(1, 2, many, 1, 1, 1);
  tall.pool = wide.pool = Pool::max_2x2;
  REQUIRE_NOTHROW(check(tall));
  REQUIRE_NOTHROW(check(wide));
}

TEST_CASE("edges: the bytes of a problem are those counted by hand") {
  ConvProblem problem = problem_of(6, 9, 10, 4, 2, 3);
  problem.n = 5;
  REQUIRE(problem.bytes() == 4.0 * (5 * 6 * 9 * 10 + 4 * 6 * 2 * 3 + 5 * 4 * 8 * 8));
  problem.r = 4;  // 6 rows of outputs, 8 columns
  REQUIRE(problem.flop() == 2.0 * 5 * 4 * 6 * 8 * 6 * 4 * 3);
}

TEST_CASE("edges: what does not count against a limit is not held against it") {
  for (const char* algorithm : {"cpu.conv.direct.fp32", "cpu.conv.direct.fp64"}) {
    // A filter of one row or column has no dilation along it.
    ConvProblem row = problem_of(1, 4, 8, 1, 1, 3), column = problem_of(1, 8, 4, 1, 3, 1);
    row.dilation.h = column.dilation.w = std::int64_t{1} << 40;
    REQUIRE(support_of(algorithm, row));
    REQUIRE(support_of(algorithm, column));
  }
  // One filter of many channels is small.
  const ConvProblem deep = problem_of(1 << 14, 1, 1, 1, 1, 1);
  for (const char* algorithm : {"cpu.conv.direct.fp32", "cpu.conv.panels.fp32"})
    REQUIRE(support_of(algorithm, deep));
}

TEST_CASE("edges: memory stays within its limit where one more row or panel would pass it") {
  // Seven panels of 20,700 terms, which no two threads have room to keep.
  ConvProblem deep = problem_of(2300, 30, 30, 4, 3, 3);
  const ConvPlan plan(Device::open("cpu"), deep, {.algorithm = "cpu.conv.panels.fp32"});
  REQUIRE(plan.workspace_bytes() <= std::size_t{64} << 20);
  // A band of one row in 64 would take more than there is; fewer rows fit.
  REQUIRE(support_of("cpu.conv.direct.fp32", problem_of(64, 4096, 4096, 1, 3, 3)));
}

TEST_CASE("edges: output rows as far apart as the image's, but shorter") {
  for (const char* algorithm :
       {"cpu.conv.im2col.fp32", "cpu.conv.panels.fp32", "cpu.conv.direct.fp32"}) {
    ConvProblem problem = problem_of(2, 5, 11, 3, 1, 3);
    problem.y_strides = {3 * 55, 55, 11, 1};
    holds_exactly(problem, algorithm);
    // N P K Q: a channel follows a row where a row would.
    problem = problem_of(2, 5, 11, 3, 1, 1);
    problem.y_strides = {3 * 55, 11, 33, 1};
    holds_exactly(problem, algorithm);
  }
}

TEST_CASE("edges: outputs whose columns are neighbours, in rows of every length") {
  for (const char* algorithm : {"cpu.conv.direct.fp32", "cpu.conv.direct.fp64"})
    for (std::int64_t w = 15; w <= 70; ++w)
      for (std::int64_t taps : {1, 2, 3}) {
        ConvProblem problem = problem_of(1, taps + 3, w, 16, taps, taps);
        problem.y_strides = {16 * 4 * problem.q(), 4 * problem.q(), 1, 4};
        holds_exactly(problem, algorithm);
      }
}

TEST_CASE("edges: more filters than a block of im2col, and more terms than one of panels") {
  for (const char* algorithm : {"cpu.conv.im2col.fp32", "cpu.conv.im2col.fp64"}) {
    holds_exactly(problem_of(3, 6, 6, 700, 3, 3), algorithm);
    ConvProblem grouped = problem_of(4, 6, 6, 2 * 1030, 1, 1);
    grouped.groups = 2;
    holds_exactly(grouped, algorithm);
  }
  for (const char* algorithm : {"cpu.conv.panels.fp32", "cpu.conv.panels.fp64"}) {
    holds_exactly(problem_of(70, 9, 40, 100, 3, 3), algorithm);
    holds_exactly(problem_of(600, 1, 20, 1500, 1, 1), algorithm);
  }
}

TEST_CASE("edges: relu in place, with any stride along an extent of one") {
  std::vector<float> data{-1, 2, -3, 4};
  Queue queue(Device::open("cpu"));
  const TensorView y(data.data(), DType::f32, {1, 4}, host, {4, 1});
  const ConstTensorView x(data.data(), DType::f32, {1, 4}, host, {77, 1});
  REQUIRE_NOTHROW(relu(queue, x, y));
  REQUIRE(data == std::vector<float>{0, 2, 0, 4});
}

TEST_CASE("edges: filters packed for other strides are refused with all strides") {
  const Device device = Device::open("cpu");
  Queue queue(device);
  ConvProblem problem = problem_of(2, 4, 4, 2, 3, 3);
  HostTensor x(DType::f32, {1, 2, 4, 4}), w(DType::f32, {2, 2, 3, 3});
  const ConvOptions options{.algorithm = "cpu.conv.im2col.fp32"};
  const PackedFilters packed = ConvPlan(device, problem, options).pack(queue, w.view());
  problem.y_strides = {99, 21, 5, 2};
  HostTensor y(DType::f32, {1, 2, 2, 2}, problem.y_strides);
  REQUIRE_THROWS_MATCHES(
      ConvPlan(device, problem, options).execute(queue, packed, {.x = x.view(), .y = y.view()}),
      Error, MessageMatches(ContainsSubstring("[32, 16, 4, 1], [18, 9, 3, 1] and [99, 21, 5, 2]")));
  REQUIRE(PackedFilters().bytes() == 0);
}

TEST_CASE("edges: an allocator that has nothing is told apart by the kind of memory") {
  const Device device = Device::open(
      "cpu", {.allocator = {.allocate = [](std::size_t, Memory, void*) -> void* { return nullptr; },
                            .deallocate = [](void*, std::size_t, Memory, void*) {}}});
  REQUIRE_THROWS_MATCHES(Tensor(device, DType::f32, {3}), Error,
                         MessageMatches(ContainsSubstring("of device memory")));
}
