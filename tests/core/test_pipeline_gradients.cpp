// Gradients of tensors on the host: what the CPU writes, in however many segments.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "support/devices.hpp"
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

constexpr Direction gradients[] = {Direction::backward_data, Direction::backward_weights};

}  // namespace

TEST_CASE("pipeline of gradients: the bits that the CPU writes, one to three axes") {
  const Device device = GENERATE(from_range(all_devices()));
  for (const ConvProblem& problem : {pipeline_problem(11), row_problem(11), deep_problem(11)})
    for (const Direction direction : gradients)
      for (const bool more : {false, true})
        for (const std::int64_t images : {0, 3}) {
          GradientCase test(in_direction(problem, direction),
                            {.bias = more, .mask = more, .accumulate = more});
          INFO(to_string(test.problem()) << (more ? ", with all else, " : ", ") << images);
          const auto expected = test.expected();
          ConvPipeline pipeline(device, test.problem(), test.options(),
                                {.images_per_segment = images});
          pipeline.run(test.tensors());
          REQUIRE(test.written() == expected);
        }
}

TEST_CASE("pipeline of gradients: one call does it all, by the names that the tensors have") {
  const Device device = GENERATE(from_range(all_devices()));
  const ConvGeometry geometry = pipeline_problem(9);
  GradientCase data(in_direction(pipeline_problem(9), Direction::backward_data),
                    {.bias = true, .mask = true});
  auto expected = data.expected();
  const ConvTensors parts = data.tensors();
  conv_backward_data_host(
      device, {.dy = parts.x, .w = parts.w, .dx = parts.y, .mask = parts.mask, .bias = parts.bias},
      geometry);
  CHECK(data.written() == expected);

  GradientCase weights(in_direction(pipeline_problem(9), Direction::backward_weights),
                       {.bias = true, .mask = true});
  expected = weights.expected();
  const ConvTensors of_weights = weights.tensors();
  conv_backward_weights_host(device,
                             {.x = of_weights.x,
                              .dy = of_weights.w,
                              .dw = of_weights.y,
                              .db = of_weights.db,
                              .mask = of_weights.mask},
                             geometry);
  CHECK(weights.written() == expected);

  GradientCase transposed(in_direction(pipeline_problem(9), Direction::backward_data));
  expected = transposed.expected();
  const ConvTensors of_transposed = transposed.tensors();
  conv_transpose_host(device, {.x = of_transposed.x, .w = of_transposed.w, .y = of_transposed.y},
                      geometry);
  CHECK(transposed.written() == expected);
}

TEST_CASE("pipeline of gradients: of no images the weights' is zero, and nothing is added") {
  const Device device = GENERATE(from_range(all_devices()));
  for (const bool accumulate : {false, true}) {
    GradientCase test(in_direction(pipeline_problem(0), Direction::backward_weights),
                      {.bias = true, .accumulate = accumulate});
    const auto expected = test.expected();
    ConvPipeline(device, test.problem(), test.options()).run(test.tensors());
    CHECK(test.written() == expected);
  }
}

TEST_CASE("pipeline of gradients: what does not fit is named as the caller knows it") {
  const Device device = GENERATE(from_range(all_devices()));
  const auto refused = [](const Error& e, const char* part) {
    CHECK(e.code() == ErrorCode::invalid_argument);
    CHECK_THAT(e.what(), ContainsSubstring(part));
  };
  for (const Direction direction : gradients) {
    const bool weights = direction == Direction::backward_weights;
    GradientCase test(in_direction(pipeline_problem(5), direction), {.bias = true, .mask = true});
    ConvProblem gaps = test.problem();
    gaps.x_strides[0] += 1;
    refused(refusal([&] { ConvPipeline(device, gaps); }), weights ? "x [5" : "dx [5");
    gaps = test.problem();
    gaps.y_strides[0] += 1;
    refused(refusal([&] { ConvPipeline(device, gaps); }), "dy [5");
    gaps = test.problem();
    gaps.w_strides[0] += 1;
    refused(refusal([&] { ConvPipeline(device, gaps); }), weights ? "dw [6" : "w [6");

    ConvPipeline pipeline(device, test.problem(), test.options());
    const auto run = [&](auto change) {
      ConvTensors tensors = test.tensors();
      change(tensors);
      return refusal([&] { pipeline.run(tensors); });
    };
    refused(run([](auto& tensors) { tensors.mask = {}; }), "mask is");
    refused(run([](auto& tensors) {
              Strides wide = tensors.mask.strides();
              wide[0] += 7;
              tensors.mask = ConstTensorView(tensors.mask.data(), DType::f32,
                                             tensors.mask.extents(), host, wide);
            }),
            "expected images without gaps");
    refused(run([&](auto& tensors) {
              tensors.y = TensorView(nullptr, DType::f32, {3, 3, 3, 3});
            }),
            weights ? "dw is f32 [3" : "dx is f32 [3");
    refused(run([&](auto& tensors) {
              tensors.y = TensorView(const_cast<void*>(tensors.mask.data()), DType::f32,
                                     tensors.y.extents());
            }),
            weights ? "dw overlaps mask" : "dx overlaps mask");
    ConvPipeline plain(device, test.problem());
    refused(refusal([&] { plain.run(test.tensors()); }), " is given; it was planned without");
  }
}
