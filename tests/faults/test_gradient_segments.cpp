// Gradients by the pipeline on a device of its own, here the fake one: segments of every size, and
// the order in which the weights' gradients of segments are summed.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <optional>

#include "fault.hpp"
#include "support/gradient_case.hpp"
#include "support/pipeline_case.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

namespace {

ConvProblem in_direction(ConvProblem problem, Direction direction) {
  problem.direction = direction;
  return problem;
}

/// The weights' gradient of images of one pixel and one channel, 1 in dy: the sum of x.
float summed(const std::vector<float>& x) {
  const std::vector<float> dy(x.size(), 1);
  float dw = -1;
  const auto n = static_cast<std::int64_t>(x.size());
  conv_backward_weights_host(
      Device::open("cuda"),
      {.x = {x.data(), {n, 1, 1, 1}}, .dy = {dy.data(), {n, 1, 1, 1}}, .dw = {&dw, {1, 1, 1, 1}}},
      {}, {}, {.images_per_segment = 1});
  return dw;
}

}  // namespace

TEST_CASE("segments of gradients: the bits are the CPU's, however the batch is cut") {
  const Device device = Device::open("cuda");
  const bool pinned = GENERATE(false, true), more = GENERATE(false, true);
  const Direction direction = GENERATE(Direction::backward_data, Direction::backward_weights);
  const std::optional<Playing> playing(pinned ? std::optional<Playing>(std::in_place, "pinned")
                                              : std::nullopt);
  for (const std::int64_t n : {1, 7, 12})
    for (const int streams : {1, 2, 4})
      for (const std::int64_t images : {0, 1, 5}) {
        INFO("N " << n << ", " << streams << " streams, " << images << " images per segment");
        ConvProblem problem = in_direction(pipeline_problem(n), direction);
        if (more)
          problem.y_strides = strides_for(Layout::nhwc, problem.y_extents());  // not the mask
        GradientCase test(problem, {.bias = more, .mask = more, .accumulate = more});
        ConvPipeline pipeline(device, test.problem(), test.options(),
                              {.streams = streams, .images_per_segment = images});
        for (int run = 0; run < 2; ++run) {
          const auto expected = test.expected();
          std::vector<PipelineSpan> timeline;
          pipeline.run(test.tensors(), &timeline);
          REQUIRE(test.written() == expected);
          std::map<PipelineStage, std::int64_t> of_stage;
          for (const PipelineSpan& span : timeline) of_stage[span.stage] += span.images;
          CHECK(of_stage[PipelineStage::kernel] == n);
          CHECK(of_stage[PipelineStage::copy_in] == n);
          const bool whole = direction == Direction::backward_data || pipeline.segments() == 1;
          CHECK((of_stage[PipelineStage::copy_out] == n) == whole);
          CHECK(of_stage[PipelineStage::drain] ==
                (pinned || direction == Direction::backward_weights ? 0 : n));
        }
      }
}

TEST_CASE("segments of gradients: weights' are summed in pairs, and pairs of pairs") {
  constexpr float large = 0x1p24F;  // 1 alone is lost beside it, 2 is not
  CHECK(summed({large, 1}) == large);
  CHECK(summed({large, 1, 1}) == large);
  CHECK(summed({large, 1, 1, 1}) == large + 2);
  CHECK(summed({1, 1, large, 1}) == large + 2);
  CHECK(summed({large, 1, 1, 1, 1}) == large + 4);
  CHECK(summed({large, 1, 1, 1, 1, 1, 1, 1}) == large + 6);
}

TEST_CASE("segments of gradients: the depth of the sum, and the bound that it takes") {
  const Device device = Device::open("cuda");
  for (const bool accumulate : {false, true})
    for (const DType dtype : {DType::f32, DType::f16})
      for (const auto& [images, depth] :
           std::map<std::int64_t, int>{{32, 0}, {16, 1}, {11, 2}, {7, 3}, {4, 3}, {1, 5}}) {
        ConvProblem problem = in_direction(pipeline_problem(32), Direction::backward_weights);
        problem.dtype = dtype;
        GradientCase test(problem, {.accumulate = accumulate}, true);
        const HostTensor before = test.output();
        ConvPipeline pipeline(device, problem, test.options(), {.images_per_segment = images});
        CAPTURE(to_string(dtype), accumulate, images);
        REQUIRE(pipeline.sum_depth() == depth + (accumulate ? 1 : 0));
        pipeline.run(test.tensors());
        auto oracle = conv_oracle(test.problem(), test.x().view(), test.dy().view());
        const auto values = test.output().values(), old = before.values();
        double largest = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (accumulate) oracle[i].add(old[i]);
          const double bound = conv_error_bound(pipeline.plan().algorithm().numerics,
                                                test.problem(), oracle[i], values[i]);
          const double more = segments_error_bound(dtype, pipeline.segments(), pipeline.sum_depth(),
                                                   oracle[i].magnitude, bound);
          CHECK((more > 0) == (pipeline.sum_depth() > 0));
          largest = std::max(largest, std::abs(values[i] - oracle[i].y) / (bound + more));
        }
        CHECK(largest <= 1);
        const auto bytes = test.written();
        GradientCase again(problem, {.accumulate = accumulate}, true);
        ConvPipeline(device, problem, test.options(), {.streams = 1, .images_per_segment = images})
            .run(again.tensors());
        CHECK(again.written() == bytes);
      }
}

TEST_CASE("segments of gradients: the memory budget holds the sums that are kept") {
  const Device device = Device::open("cuda");
  GradientCase test(in_direction(pipeline_problem(24), Direction::backward_weights),
                    {.bias = true});
  const auto bytes_of = [&](std::int64_t images, int streams) {
    return ConvPipeline(device, test.problem(), test.options(),
                        {.streams = streams, .images_per_segment = images})
        .device_bytes();
  };
  // 24 segments of one image keep five sums of dw and of db, each in 256 bytes or a multiple.
  const std::size_t dw = 512, db = 256, x = 1792, dy = 1536;
  REQUIRE(bytes_of(1, 2) - bytes_of(1, 1) == x + dy);
  const std::size_t workspace =
      ConvPipeline(device, test.problem(), test.options(), {.images_per_segment = 1})
          .plan()
          .workspace_bytes();
  CHECK(bytes_of(1, 1) == 5 * (dw + db) + x + dy + workspace);
  const std::size_t least = bytes_of(1, 1);
  ConvPipeline within(device, test.problem(), test.options(), {.memory_budget_bytes = least});
  CHECK(within.device_bytes() <= least);
  const auto expected = test.expected();
  within.run(test.tensors());
  CHECK(test.written() == expected);
  const Error refused = refusal(
      [&] { ConvPipeline(device, test.problem(), test.options(), {.memory_budget_bytes = 1000}); });
  CHECK(refused.code() == ErrorCode::out_of_memory);
  CHECK_THAT(refused.what(), ContainsSubstring("the memory budget is 1000 bytes"));
}

TEST_CASE("segments of gradients: a run after one that failed begins anew") {
  const Device device = Device::open("cuda");
  GradientCase test(in_direction(pipeline_problem(7), Direction::backward_weights), {.bias = true});
  ConvPipeline pipeline(device, test.problem(), test.options(), {.images_per_segment = 2});
  {
    const Playing playing{"launch"};
    CHECK(refusal([&] { pipeline.run(test.tensors()); }).code() == ErrorCode::device_failure);
  }
  const auto expected = test.expected();
  pipeline.run(test.tensors());
  CHECK(test.written() == expected);
}

TEST_CASE("segments of gradients: what fails on the way is done again by the CPU") {
  const Device device = Device::open("auto");
  REQUIRE(device.id().backend == "cuda");
  for (const bool accumulate : {false, true}) {
    GradientCase test(in_direction(pipeline_problem(6), Direction::backward_weights),
                      {.bias = true, .accumulate = accumulate});
    const auto expected = test.expected();
    const ConvTensors parts = test.tensors();
    const BackwardWeightsTensors tensors{
        .x = parts.x, .dy = parts.w, .dw = parts.y, .db = parts.db};
    const Playing playing{"launch"};
    const auto call = [&] {
      return conv_backward_weights_host(device, tensors, test.problem(), {.accumulate = accumulate},
                                        {.images_per_segment = 1});
    };
    if (accumulate) {
      CHECK(refusal([&] { call(); }).code() == ErrorCode::device_failure);
    } else {
      CHECK(call().id() == host);
      CHECK(test.written() == expected);
    }
  }
}
