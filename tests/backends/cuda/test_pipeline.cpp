// The pipeline where a device has memory of its own: budgets, pinned memory, and what is left after
// an error.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>

#include "plumb/backend.hpp"
#include "support/devices.hpp"
#include "support/pipeline_case.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("cuda pipeline: host memory is told pinned from pageable") {
  const Device device = device_or_skip("cuda");
  const Tensor pinned(device, DType::f32, {1000}, {}, Memory::pinned_host);
  const Tensor resident(device, DType::f32, {1000});
  const std::vector<float> pageable(1000);
  CHECK(device.backend().is_pinned(pinned.data()));
  CHECK(device.backend().is_pinned(pinned.data_as<float>() + 999));
  CHECK(!device.backend().is_pinned(pageable.data()));
  CHECK(!device.backend().is_pinned(resident.data()));
  CHECK(!device.backend().is_pinned(nullptr));
}

TEST_CASE("cuda pipeline: a memory budget forces small segments, then fewer streams") {
  const Device device = device_or_skip("cuda");
  PipelineCase test(pipeline_problem(301), true, Values::normal);
  ConvOptions options = test.options();
  options.algorithm = "cuda.conv.direct.fp32";  // needs no workspace
  const auto expected = test.resident(device, options.algorithm);
  std::int64_t segments = 0;
  for (const std::size_t budget : {1000000, 100000, 30000, 12000, 7000}) {
    INFO(budget << " bytes");
    PipelineCase again(pipeline_problem(301), true, Values::normal);
    ConvPipeline pipeline(device, again.problem(), options, {.memory_budget_bytes = budget});
    CHECK(pipeline.device_bytes() <= budget);
    CHECK(pipeline.segments() >= segments);
    segments = pipeline.segments();
    pipeline.run(again.tensors());
    REQUIRE((again.y().bytes() == expected));
    const PinnedCase pinned(device, again);
    pipeline.run(pinned.tensors());
    pinned.read_back(again);
    REQUIRE((again.y().bytes() == expected));
  }
  CHECK(segments == 301);
}

TEST_CASE("cuda pipeline: a budget below one image is an error that names the bytes") {
  const Device device = device_or_skip("cuda");
  const PipelineCase test(pipeline_problem(3));
  const auto message = [&](const PipelineOptions& options) -> std::string {
    try {
      ConvPipeline(device, test.problem(), test.options(), options);
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::out_of_memory);
      return e.what();
    }
    return "nothing was thrown";
  };
  CHECK_THAT(message({.memory_budget_bytes = 1000}),
             ContainsSubstring("1 image at a time in 1 stream needs ") &&
                 ContainsSubstring("the memory budget is 1000 bytes"));
  CHECK_THAT(message({.memory_budget_bytes = 9000, .images_per_segment = 3}),
             ContainsSubstring("3 images at a time"));
}

TEST_CASE("cuda pipeline: segments are as large as asked for, and the last is what is left") {
  const Device device = device_or_skip("cuda");
  const PipelineCase test(pipeline_problem(100));
  const ConvPipeline pipeline(device, test.problem(), test.options(),
                              {.streams = 8, .images_per_segment = 17});
  CHECK(pipeline.images_per_segment() == 17);
  CHECK(pipeline.segments() == 6);
  CHECK(pipeline.streams() == 6);
}

TEST_CASE("cuda pipeline: several times the budget goes through, pinned, in one run") {
  const Device device = device_or_skip("cuda");
  ConvProblem problem = pipeline_problem(1000);
  problem.h = 64, problem.w = 64;  // 4 x 64 x 64 floats an image: 66 MB
  PipelineCase test(problem);
  ConvPipeline pipeline(device, test.problem(), test.options(), {.memory_budget_bytes = 8 << 20});
  const auto expected = test.resident(device, pipeline.plan().algorithm().name);
  const PinnedCase pinned(device, test);
  std::vector<PipelineSpan> timeline;
  pipeline.run(pinned.tensors(), &timeline);
  pinned.read_back(test);
  CHECK((test.y().bytes() == expected));
  // That is what it is for: the next segment is copied in before this one has been copied out.
  std::map<std::int64_t, double> copy_in_begin, copy_out_end;
  for (const PipelineSpan& span : timeline) {
    CHECK((span.stage != PipelineStage::fill && span.stage != PipelineStage::drain));
    const std::int64_t segment = span.first_image / pipeline.images_per_segment();
    if (span.stage == PipelineStage::copy_in) copy_in_begin[segment] = span.begin_seconds;
    if (span.stage == PipelineStage::copy_out) copy_out_end[segment] = span.end_seconds;
  }
  REQUIRE(static_cast<std::int64_t>(copy_in_begin.size()) == pipeline.segments());
  REQUIRE(pipeline.segments() > 10);
  std::int64_t overlapping = 0;
  for (std::int64_t segment = 0; segment + 1 < pipeline.segments(); ++segment)
    overlapping += copy_in_begin[segment + 1] < copy_out_end[segment];
  CHECK(overlapping > pipeline.segments() / 2);
}
