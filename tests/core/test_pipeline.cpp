// Convolution of tensors on the host: the same bits as on the device, in however many segments.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <set>

#include "support/devices.hpp"
#include "support/pipeline_case.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("pipeline: pageable and pinned tensors give the bits that the device gives") {
  const Device device = GENERATE(from_range(all_devices()));
  for (const std::int64_t n : {1, 2, 7, 37})
    for (const int streams : {1, 2, 4})
      for (const std::int64_t images : {0, 1, 5}) {
        INFO("N " << n << ", " << streams << " streams, " << images << " images per segment");
        PipelineCase test(pipeline_problem(n));
        ConvPipeline pipeline(device, test.problem(), test.options(),
                              {.streams = streams, .images_per_segment = images});
        const auto expected = test.resident(device, pipeline.plan().algorithm().name);
        pipeline.run(test.tensors());
        REQUIRE((test.y().bytes() == expected));

        PipelineCase again(pipeline_problem(n));
        const PinnedCase pinned(device, again);
        pipeline.run(pinned.tensors());
        pinned.read_back(again);
        REQUIRE((again.y().bytes() == expected));
      }
}

TEST_CASE("pipeline: stored types, NHWC, and no bias") {
  const Device device = GENERATE(from_range(all_devices()));
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const Layout layout : {Layout::nchw, Layout::nhwc})
      for (const bool bias : {true, false}) {
        ConvProblem problem = pipeline_problem(11);
        problem.dtype = dtype;
        problem.x_strides = strides_for(layout, problem.x_extents());
        problem.y_strides = strides_for(layout, problem.y_extents());
        PipelineCase test(problem, bias);
        ConvPipeline pipeline(device, test.problem(), test.options(), {.images_per_segment = 3});
        pipeline.run(test.tensors());
        REQUIRE((test.y().bytes() == test.resident(device, pipeline.plan().algorithm().name)));
      }
}

TEST_CASE("pipeline: pooled outputs") {
  const Device device = GENERATE(from_range(all_devices()));
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    ConvProblem problem = pipeline_problem(11);
    problem.pool = Pool::max_2x2;
    problem.x_strides = strides_for(layout, problem.x_extents());
    problem.y_strides = strides_for(layout, problem.y_extents());
    PipelineCase test(problem);
    ConvPipeline pipeline(device, test.problem(), test.options(), {.images_per_segment = 3});
    pipeline.run(test.tensors());
    REQUIRE((test.y().bytes() == test.resident(device, pipeline.plan().algorithm().name)));
  }
}

TEST_CASE("pipeline: images of one axis and of three, boundaries, and a sum") {
  const Device device = GENERATE(from_range(all_devices()));
  for (const ConvProblem& problem : {row_problem(11), deep_problem(11)})
    for (const bool accumulate : {false, true})
      for (const std::int64_t images : {0, 1, 3}) {
        INFO(to_string(problem) << (accumulate ? ", added to y, " : ", ") << images
                                << " a segment");
        PipelineCase test(problem);
        ConvOptions options = test.options();
        options.accumulate = accumulate;
        if (accumulate) test.fill_y();
        ConvPipeline pipeline(device, problem, options, {.images_per_segment = images});
        const auto expected = test.resident(device, pipeline.plan().algorithm().name, accumulate);
        pipeline.run(test.tensors());
        REQUIRE((test.y().bytes() == expected));
      }
}

TEST_CASE("pipeline: tensors in the rank that their images have") {
  const Device device = GENERATE(from_range(all_devices()));
  const std::vector<float> x{1, 2, 3, 4, 5, 10, 20, 30, 40, 50}, w{1, 10, 100};
  const std::vector<float> expected{215, 321, 432, 543, 154, 2150, 3210, 4320, 5430, 1540};
  const ConvGeometry geometry{.padding = 1, .boundary = Boundary::periodic};
  for (const bool deep : {false, true}) {
    std::vector<float> y(x.size(), -1);
    const ConvTensors tensors = deep ? ConvTensors{.x = {x.data(), {2, 1, 5, 1, 1}},
                                                   .w = {w.data(), {1, 1, 3, 1, 1}},
                                                   .y = {y.data(), {2, 1, 5, 1, 1}}}
                                     : ConvTensors{.x = {x.data(), {2, 1, 5}},
                                                   .w = {w.data(), {1, 1, 3}},
                                                   .y = {y.data(), {2, 1, 5}}};
    const ConvGeometry along_depth{.padding = {1, 0, 0}, .boundary = Boundary::periodic};
    conv_host(device, tensors, deep ? along_depth : geometry);
    CHECK(y == expected);
  }
}

TEST_CASE("pipeline: one call does it all") {
  const Device device = GENERATE(from_range(all_devices()));
  PipelineCase test(pipeline_problem(9));
  ConvOptions options = test.options();
  options.bias = false;  // what is given says whether there is one
  options.algorithm = ConvPlan(device, test.problem(), test.options()).algorithm().name;
  conv_host(device, test.tensors(), test.problem(), options);
  REQUIRE((test.y().bytes() == test.resident(device, options.algorithm)));
}

TEST_CASE("pipeline: an empty batch is nothing to do") {
  const Device device = GENERATE(from_range(all_devices()));
  PipelineCase test(pipeline_problem(0));
  const auto before = test.y().bytes();
  ConvPipeline pipeline(device, test.problem(), test.options());
  std::vector<PipelineSpan> timeline(1);
  pipeline.run(test.tensors(), &timeline);
  CHECK(pipeline.segments() == 0);
  CHECK(timeline.empty());
  CHECK((test.y().bytes() == before));
}

TEST_CASE("pipeline: the timeline has every segment in every stage, one after the other") {
  const Device device = GENERATE(from_range(all_devices()));
  PipelineCase test(pipeline_problem(23));
  ConvPipeline pipeline(device, test.problem(), test.options(),
                        {.streams = 3, .images_per_segment = 4});
  std::vector<PipelineSpan> timeline;
  pipeline.run(test.tensors(), &timeline);
  std::map<std::int64_t, std::vector<PipelineSpan>> segments;
  for (const PipelineSpan& span : timeline) {
    CHECK(span.begin_seconds <= span.end_seconds);
    segments[span.first_image].push_back(span);
  }
  REQUIRE(static_cast<std::int64_t>(segments.size()) == pipeline.segments());
  std::int64_t images = 0;
  for (auto& [first, spans] : segments) {
    CHECK(first == images);
    images += spans.front().images;
    std::sort(spans.begin(), spans.end(),
              [](const auto& a, const auto& b) { return a.stage < b.stage; });
    if (device.id() == host) {
      REQUIRE(spans.size() == 1);
      CHECK(spans[0].stage == PipelineStage::kernel);
      continue;
    }
    // Pageable memory, so filled and drained too; where Kokkos runs on the host, all will do.
    const bool staged = device.info().compute_major > 0;
    REQUIRE(spans.size() == (staged ? 5 : 3));
    for (std::size_t i = 0; i < spans.size(); ++i) {
      CHECK(static_cast<std::size_t>(spans[i].stage) == (staged ? i : i + 1));
      // The device's events are exact; its clock and the host's are set to each other more or less.
      const bool beside_host = staged && (i == 1 || i == 4);
      if (i > 0)
        CHECK(spans[i].begin_seconds >= spans[i - 1].end_seconds - (beside_host ? 1e-3 : 2e-6));
    }
  }
  CHECK(images == 23);
}

TEST_CASE("pipeline: what it cannot do is refused") {
  const Device device = GENERATE(from_range(all_devices()));
  PipelineCase test(pipeline_problem(5));
  const auto make = [&](const ConvProblem& problem, const PipelineOptions& options = {}) {
    return refusal([&] { ConvPipeline(device, problem, test.options(), options); });
  };
  const auto refused = [](const Error& e, const char* part) {
    CHECK(e.code() == ErrorCode::invalid_argument);
    CHECK_THAT(e.what(), ContainsSubstring(part));
  };
  refused(make(test.problem(), {.streams = 0}), "0 streams");
  refused(make(test.problem(), {.images_per_segment = -1}), "-1 images per segment");
  ConvProblem gaps = test.problem();
  gaps.x_strides[0] += 1;
  refused(make(gaps), "x [5, 4, 9, 11] has strides [397, 99, 11, 1]; expected images without gaps");
  gaps = test.problem();
  gaps.y_strides[0] += 3;
  refused(make(gaps), "y ");
  gaps = test.problem();
  gaps.w_strides[0] += 1;
  refused(make(gaps), "w ");

  ConvPipeline pipeline(device, test.problem(), test.options());
  const auto run = [&](auto change) {
    ConvTensors tensors = test.tensors();
    change(tensors);
    return refusal([&] { pipeline.run(tensors); });
  };
  refused(run([](auto& tensors) { tensors.bias = {}; }), "bias is");
  refused(run([](auto& tensors) { tensors.x = slice(tensors.x, 0, 0, 4); }), "x is f32 [4, ");
  refused(
      run([](auto& tensors) { tensors.y = TensorView(nullptr, DType::f32, tensors.y.extents()); }),
      "y has no data");
  refused(run([](auto& tensors) {
            tensors.w = ConstTensorView(tensors.w.data(), DType::f32, tensors.w.extents(),
                                        DeviceId{"elsewhere", 0});
          }),
          "w is on elsewhere:0; expected host memory");
  ConvOptions unknown = test.options();
  unknown.algorithm = "no.such.algorithm";
  CHECK(refusal([&] { ConvPipeline(device, test.problem(), unknown); }).code() ==
        ErrorCode::unsupported);
}

TEST_CASE("pipeline: every stage has a name of its own") {
  std::set<std::string_view> names;
  for (const PipelineStage stage :
       {PipelineStage::fill, PipelineStage::copy_in, PipelineStage::kernel, PipelineStage::copy_out,
        PipelineStage::drain})
    names.insert(to_string(stage));
  CHECK(names.size() == 5);
}
