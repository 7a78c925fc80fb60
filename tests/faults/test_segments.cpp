// The pipeline on a device of its own, here the fake one: how a batch is cut into segments, with
// pageable and with pinned memory, and within a memory budget.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <optional>

#include "fault.hpp"
#include "support/pipeline_case.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("segments: the bits are the device's, however the batch is cut") {
  const Device device = Device::open("cuda");
  const bool pinned = GENERATE(false, true), bias = GENERATE(false, true);
  const std::optional<Playing> playing(pinned ? std::optional<Playing>(std::in_place, "pinned")
                                              : std::nullopt);
  for (const std::int64_t n : {1, 7, 12})
    for (const int streams : {1, 2, 4})
      for (const std::int64_t images : {0, 1, 5}) {
        INFO("N " << n << ", " << streams << " streams, " << images << " images per segment");
        PipelineCase test(pipeline_problem(n), bias);
        ConvPipeline pipeline(device, test.problem(), test.options(),
                              {.streams = streams, .images_per_segment = images});
        const auto expected = test.resident(device, pipeline.plan().algorithm().name);
        CHECK(pipeline.streams() <= pipeline.segments());
        pipeline.run(test.tensors());
        REQUIRE((test.y().bytes() == expected));
        std::vector<PipelineSpan> timeline;
        pipeline.run(test.tensors(), &timeline);  // the staging memory is there
        REQUIRE((test.y().bytes() == expected));
        std::map<PipelineStage, std::int64_t> of_stage;
        for (const PipelineSpan& span : timeline) of_stage[span.stage] += span.images;
        REQUIRE(of_stage.size() == (pinned ? 3 : 5));
        for (const auto& [stage, seen] : of_stage) CHECK(seen == n);
      }
}

TEST_CASE("segments: images of one axis and of three, and what y held goes in as well") {
  const Device device = Device::open("cuda");
  const bool pinned = GENERATE(false, true), accumulate = GENERATE(false, true);
  const std::optional<Playing> playing(pinned ? std::optional<Playing>(std::in_place, "pinned")
                                              : std::nullopt);
  for (const ConvProblem& problem : {row_problem(7), deep_problem(7)})
    for (const int streams : {1, 3}) {
      INFO(to_string(problem) << ", " << streams << " streams");
      PipelineCase test(problem);
      ConvOptions options = test.options();
      options.accumulate = accumulate;
      if (accumulate) test.fill_y();
      ConvPipeline pipeline(device, test.problem(), options,
                            {.streams = streams, .images_per_segment = 1});
      REQUIRE(pipeline.segments() == 7);
      const auto expected = test.resident(device, pipeline.plan().algorithm().name, accumulate);
      pipeline.run(test.tensors());
      REQUIRE((test.y().bytes() == expected));
    }
}

TEST_CASE("segments: a memory budget makes them smaller, then takes streams, then refuses") {
  const Device device = Device::open("cuda");
  PipelineCase test(pipeline_problem(24));
  const auto bytes_of = [&](std::int64_t images, int streams) {
    return ConvPipeline(device, test.problem(), test.options(),
                        {.streams = streams, .images_per_segment = images})
        .device_bytes();
  };
  const auto within = [&](std::size_t budget) {
    return ConvPipeline(device, test.problem(), test.options(),
                        {.streams = 3, .memory_budget_bytes = budget});
  };
  ConvPipeline fewer = within(bytes_of(2, 3));
  CHECK(fewer.images_per_segment() >= 1);
  CHECK(fewer.images_per_segment() <= 2);
  CHECK(fewer.streams() == 3);
  CHECK(fewer.device_bytes() <= bytes_of(2, 3));
  fewer.run(test.tensors());
  CHECK((test.y().bytes() == test.resident(device, "cuda.conv.fake.fp32")));

  const std::size_t least = bytes_of(1, 1);
  CHECK(within(bytes_of(1, 2)).streams() == 2);
  CHECK(within(least).streams() == 1);
  const Error refused = refusal([&] { within(least - 1); });
  CHECK(refused.code() == ErrorCode::out_of_memory);
  CHECK_THAT(refused.what(),
             ContainsSubstring("1 image at a time in 1 stream needs " + std::to_string(least)) &&
                 ContainsSubstring("the memory budget is " + std::to_string(least - 1) + " bytes"));
  // What is asked for is not made smaller.
  const Error given = refusal([&] {
    ConvPipeline(device, test.problem(), test.options(),
                 {.streams = 2, .memory_budget_bytes = least, .images_per_segment = 3});
  });
  CHECK_THAT(given.what(), ContainsSubstring("3 images at a time in 2 streams need "));
}

TEST_CASE("segments: where the chosen algorithm cannot run the last segment another does") {
  const Device device = Device::open("cuda");
  PipelineCase test(pipeline_problem(7));
  ConvOptions options = test.options();
  options.algorithm = "cuda.conv.fake.many";  // two or three images alone
  const Error refused =
      refusal([&] { ConvPipeline(device, test.problem(), options, {.images_per_segment = 3}); });
  CHECK(refused.code() == ErrorCode::unsupported);
  CHECK_THAT(refused.what(), ContainsSubstring("a fake wants two or three images"));
  // Chosen and not forced, another takes its place.
  options.algorithm.clear();
  ConvPipeline pipeline(device, test.problem(), options, {.images_per_segment = 3});
  CHECK(pipeline.plan().algorithm().name == "cuda.conv.fake.many");
  CHECK(pipeline.segments() == 3);
  pipeline.run(test.tensors());
  CHECK((test.y().bytes() == test.resident(device, "cuda.conv.fake.fp32")));
}

TEST_CASE("segments: an empty batch, and a fault under way that the end waits for") {
  const Device device = Device::open("cuda");
  PipelineCase none(pipeline_problem(0));
  ConvPipeline empty(device, none.problem(), none.options());
  empty.run(none.tensors());
  CHECK(empty.segments() == 0);
  CHECK(empty.device_bytes() == 0);

  PipelineCase test(pipeline_problem(6));
  ConvPipeline pipeline(device, test.problem(), test.options(), {.images_per_segment = 1});
  {
    const Playing playing{"kernel"};
    const Error broken = refusal([&] { pipeline.run(test.tensors()); });
    CHECK(broken.code() == ErrorCode::device_failure);
    CHECK_THAT(broken.what(), ContainsSubstring("IllegalAddress"));
  }
  const Playing playing{"restarted"};
  REQUIRE(Device::open("cuda").id() == device.id());
  pipeline.run(test.tensors());
  CHECK((test.y().bytes() == test.resident(device, pipeline.plan().algorithm().name)));
}
