// Tiles in shared memory, up to the last byte that a block may have.
#ifdef PLUMB_TEST_LADDER
#include <catch2/matchers/catch_matchers_string.hpp>

#include "support/cuda_exact.hpp"
#include "support/devices.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using plumb_test::forcing;

TEST_CASE("cuda: the largest tile that shared memory holds runs, and the next is refused") {
  const Device device = plumb_test::device_or_skip("cuda");
  Queue queue(device);
  ConvProblem problem;
  problem.n = problem.k = 2;
  problem.h = problem.w = 320;
  problem.r = problem.s = 2;
  problem.dilation = {200, 1};
  // Taps further and further apart, a column of a few hundred bytes at a time.
  const auto with_columns = [&](std::int64_t apart) {
    ConvProblem wider = problem;
    wider.dilation.w = apart;
    return check(wider);
  };
  int found = 0;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
    if (algorithm->name.find(".shared_tile") == std::string_view::npos) continue;
    CAPTURE(algorithm->name);
    std::int64_t apart = 1;
    while (algorithm->plan(with_columns(apart), device.info()).support) ++apart;
    const Support refused = algorithm->plan(with_columns(apart), device.info()).support;
    CHECK(refused.reason == Reason::device_limit);
    CHECK_THAT(refused.sentence,
               ContainsSubstring(std::to_string(device.info().shared_memory_bytes)));

    REQUIRE(apart > 1);
    const plumb_test::ExactConv conv(queue, with_columns(apart - 1), 3);
    conv.execute(queue, ConvPlan(device, conv.problem(), forcing(*algorithm)));
    CHECK(conv.is_right(queue));
    ++found;
  }
  CHECK(found == 12);
}
#endif
