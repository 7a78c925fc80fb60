// Views of three to five indices and accumulation through the calls that users make, with every
// algorithm of the CPU: what an algorithm does not compute itself is done around it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "plumb/plumb.hpp"
#include "support/host_tensor.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Extents without those in front that are behind N and C and have to be 1.
Extents of_rank(const Extents& extents, int rank) {
  std::vector<std::int64_t> kept(extents.begin(), extents.end());
  while (static_cast<int>(kept.size()) > rank) {
    REQUIRE(kept[2] == 1);
    kept.erase(kept.begin() + 2);
  }
  while (static_cast<int>(kept.size()) < rank) kept.insert(kept.begin() + 2, 1);
  return {kept.data(), kept.size()};
}

/// The same elements under another number of indices.
template <class View>
View seen_as(const View& view, int rank) {
  return View(view.data(), view.dtype(), of_rank(view.extents(), rank));
}

}  // namespace

TEST_CASE("ranks: views of three to five indices give the same convolution") {
  Queue queue(Device::open("cpu"));
  const ConvProblem problem = parse_problem("mb2ic3iw17oc4kw5pw2_padreflect").problem;
  const HostTensor x = integers(DType::f32, problem.x_extents(), 1),
                   w = integers(DType::f32, problem.w_extents(), 2);
  const auto expected = conv_oracle(problem, x.view(), w.view());
  for (const int rank : {3, 4, 5}) {
    CAPTURE(rank);
    HostTensor y(DType::f32, problem.y_extents());
    // What the geometry says of axes that are not there has no say in rank 3.
    ConvGeometry geometry{.padding = {0, 2}, .boundary = Boundary::reflect};
    if (rank == 3) geometry.padding = 2, geometry.stride = {5, 5, 1};
    const ConvTensors tensors{
        .x = seen_as(x.view(), rank), .w = seen_as(w.view(), rank), .y = seen_as(y.view(), rank)};
    CHECK(problem_of(tensors, geometry) == problem);
    conv(queue, tensors, geometry);
    const auto values = y.values();
    for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == expected[i].y);
    REQUIRE(y.surroundings_untouched());
    y = HostTensor(DType::f32, problem.y_extents());
    ConvPlan(queue.device(), problem)
        .execute(queue, {.x = seen_as(x.view(), rank),
                         .w = seen_as(w.view(), rank),
                         .y = seen_as(y.view(), rank)});
    CHECK(y.values() == values);
  }
}

TEST_CASE("ranks: views that do not fit each other are refused with their letters") {
  std::vector<float> data(4096);
  const auto view = [&](const Extents& extents) { return TensorView(data.data(), extents); };
  const auto says = [](const ConvTensors& tensors, const ConvGeometry& geometry,
                       const std::string& words) {
    const Error error = refusal([&] { problem_of(tensors, geometry); });
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK_THAT(error.what(), ContainsSubstring(words));
  };
  says({.x = view({2, 25}), .w = view({3, 1, 3}), .y = {}}, {}, "three to five: N C W");
  says({.x = view({1, 2, 3, 4, 5, 6}), .w = view({3, 2, 1, 1, 1}), .y = {}}, {}, "three to five");
  says({.x = view({1, 2, 4, 5, 6}), .w = view({3, 2, 1, 1}), .y = {}}, {},
       "w has extents [3, 2, 1, 1]; expected 5");
  says({.x = view({1, 2, 9}), .w = view({3, 1, 3}), .y = {}}, {}, "expected w to be [3, 2, 3]");
  says({.x = view({1, 2, 9}), .w = view({3, 2, 3}), .y = view({1, 3, 1, 7})}, {},
       "y has extents [1, 3, 1, 7]; expected 3");
  says({.x = view({1, 2, 1, 5, 6}), .w = view({3, 2, 1, 1, 1}), .y = {}}, {.padding = {1, 0, 0}},
       "D and T are 1, padded by 1 and 1");
}

TEST_CASE("accumulate: added before the ReLU, with every algorithm and stored type") {
  const Device cpu = Device::open("cpu");
  Queue queue(cpu);
  for (const char* text : {"mb2ic3ih6iw7oc4kh3ph1", "mb2ic2id4ih5iw6oc3kd2kh3kw2pd1ph1pw0",
                           "mb2ic2id4ih5iw6oc3kd3kh3kw3pd1ph1pw1_padperiodic/clamp/reflect"})
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      ConvProblem problem = parse_problem(text).problem;
      problem.dtype = dtype;
      const HostTensor x = integers(dtype, problem.x_extents(), 1),
                       w = integers(dtype, problem.w_extents(), 2),
                       bias = integers(dtype, {problem.k}, 3),
                       before = integers(dtype, problem.y_extents(), 4);
      const auto expected = conv_oracle(problem, x.view(), w.view(), bias.view());
      const auto old = before.values();
      for (const ConvAlgorithm* algorithm : conv_algorithms(cpu)) {
        if (!ask(*algorithm, problem, cpu.info(), true).support) continue;
        CAPTURE(text, to_string(dtype), algorithm->name);
        ConvOptions options{.math = dtype == DType::bf16 ? Math::bf16 : Math::fp16,
                            .algorithm = std::string(algorithm->name)};
        options.bias = options.accumulate = true;
        options.activation = Activation::relu;
        const ConvPlan plan(cpu, problem, options);
        HostTensor y = before;
        plan.execute(queue, {.x = x.view(), .w = w.view(), .bias = bias.view(), .y = y.view()});
        const auto values = y.values();
        for (std::size_t i = 0; i < values.size(); ++i) {
          const double sum = expected[i].y + old[i];
          const HostTensor stored = HostTensor::of(dtype, {1}, {sum < 0 ? 0 : sum});
          REQUIRE(values[i] == stored.at({0}));
        }
        REQUIRE(y.surroundings_untouched());
      }
    }
}

TEST_CASE("accumulate: refused where y is pooled") {
  const Device cpu = Device::open("cpu");
  ConvProblem problem = parse_problem("mb2ic3ih8oc4kh3").problem;
  const ConvOptions options{.accumulate = true};
  problem.pool = Pool::max_2x2;
  problem.y_strides = {};
  CHECK_THAT(refusal([&] { ConvPlan(cpu, problem, options); }).what(),
             ContainsSubstring("accumulated and pooled"));
  ValidationCase test = validation_case("", problem, Placement::nchw);
  test.accumulate = true;
  CHECK_THAT(refusal([&] { validate(cpu, conv_algorithms(cpu), test); }).what(),
             ContainsSubstring("accumulated and pooled"));
}

TEST_CASE("stages: explain says what is done around an algorithm") {
  const Device cpu = Device::open("cpu");
  const ConvProblem problem =
      parse_problem("mb2ic3id5ih6iw7oc4kd3kh3kw3pd1ph1pw1_padperiodic").problem;
  int runs = 0;
  for (const ConvAlgorithm* algorithm : conv_algorithms(cpu)) {
    const ConvCandidate candidate = ask(*algorithm, problem, cpu.info(), true);
    if (!candidate.support) continue;
    ++runs;
    CAPTURE(algorithm->name);
    if (!algorithm->takes_boundaries) CHECK(candidate.copies_input);
    if (!algorithm->accumulates) CHECK_FALSE(candidate.accumulate_fused);
    if (candidate.copies_input)
      CHECK(candidate.workspace_bytes >= 3u * 7 * 8 * 9 * size_in_bytes(problem.dtype));
  }
  CHECK(runs > 0);
}

TEST_CASE("stages: taps in the padding along the depth do not meet an Inf in the filter") {
  const Device cpu = Device::open("cpu");
  Queue queue(cpu);
  const double inf = std::numeric_limits<double>::infinity();
  // The last has planes of the output without any tap: the bias alone.
  for (const char* text : {"mb2ic2id4ih3iw5oc3kd3kh2kw3pd1ph1pw1", "mb1ic1id1ih4oc2kd3kh3pd1ph1",
                           "mb2ic1id2ih3iw3oc2od8oh3ow3kd2kh1kw1pd3ph0pw0"}) {
    const ConvProblem problem = parse_problem(text).problem;
    const HostTensor x = integers(DType::f32, problem.x_extents(), 1),
                     bias = integers(DType::f32, {problem.k}, 3);
    HostTensor w = integers(DType::f32, problem.w_extents(), 2);
    w.set({0, 0, 0, 0, 0}, inf);
    const auto expected = conv_oracle(problem, x.view(), w.view(), bias.view());
    for (const ConvAlgorithm* algorithm : conv_algorithms(cpu)) {
      if (!ask(*algorithm, problem, cpu.info()).support) continue;
      CAPTURE(text, algorithm->name);
      const ConvPlan plan(cpu, problem, {.algorithm = std::string(algorithm->name), .bias = true});
      HostTensor y(DType::f32, problem.y_extents());
      plan.execute(queue, {.x = x.view(), .w = w.view(), .bias = bias.view(), .y = y.view()});
      const auto values = y.values();
      for (std::size_t i = 0; i < values.size(); ++i)
        REQUIRE(
            (values[i] == expected[i].y || (std::isnan(values[i]) && std::isnan(expected[i].y))));
      HostTensor again(DType::f32, problem.y_extents());
      const PackedFilters packed = plan.pack(queue, w.view());
      plan.execute(queue, packed, {.x = x.view(), .bias = bias.view(), .y = again.view()});
      REQUIRE(again.bytes() == y.bytes());
    }
  }
}
