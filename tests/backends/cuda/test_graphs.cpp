// Convolutions that are captured in CUDA graphs.
#ifdef PLUMB_TEST_CUDA
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda_case.hpp"
#include "plumb/backend.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb_test::cuda;
using Catch::Matchers::ContainsSubstring;
using plumb_test::refusal;
using plumb_test::Stream;

namespace {

/// The algorithms that can run the problem, forced: as plans.
std::vector<ConvPlan> forced_plans(const Device& device, const ConvProblem& problem) {
  std::vector<ConvPlan> plans;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
    const ConvOptions options{.math = Math::fp16, .algorithm = std::string(algorithm->name)};
    const auto candidates = explain(device, problem, options);
    if (std::any_of(candidates.begin(), candidates.end(), [](const auto& c) { return c.chosen; }))
      plans.emplace_back(device, problem, options);
  }
  return plans;
}

}  // namespace

TEST_CASE("cuda: an algorithm can be captured in a graph, or says that it cannot") {
  const Device device = gpu();
  SmallConv conv(device);
  const Tensor positive(device, DType::f32, conv.y.extents());
  int captured = 0;
  for (const ConvPlan& plan : forced_plans(device, conv.problem)) {
    CAPTURE(plan.algorithm().name);
    const auto bytes = static_cast<std::int64_t>(plan.workspace_bytes());
    const Tensor workspace(device, DType::f32, {bytes / 4 + 1});

    const Stream own;
    Queue queue = Queue::wrap(device, own.stream);
    const auto execute = [&] { plan.execute(queue, conv.tensors(), workspace.data()); };
    expect(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeGlobal));
    if (plan.algorithm().capturable)
      execute();
    else
      CHECK(refusal(execute).code() == ErrorCode::unsupported);
    relu(queue, conv.y, positive);
    cudaGraph_t graph = nullptr;
    expect(cudaStreamEndCapture(own.stream, &graph));
    cudaGraphExec_t executable = nullptr;
    expect(cudaGraphInstantiate(&executable, graph, 0));
    for (const float first : {2.0f, -4.0f}) {
      conv.fill_x(queue, first);
      conv.forget_y(queue);
      if (!plan.algorithm().capturable) execute();
      expect(cudaGraphLaunch(executable, own.stream));
      std::vector<float> expected = conv.expected(first);
      REQUIRE(download(queue, conv.y) == expected);
      for (float& value : expected) value = std::max(value, 0.0f);
      REQUIRE(download(queue, positive) == expected);
    }
    expect(cudaGraphExecDestroy(executable));
    expect(cudaGraphDestroy(graph));
    captured += plan.algorithm().capturable;
  }
  REQUIRE(captured >= 4);
}

TEST_CASE("cuda: packed filters in a graph, and no packing while one is captured") {
  const Device device = gpu();
  SmallConv conv(device);
  int captured = 0;
  for (const ConvPlan& plan : forced_plans(device, conv.problem)) {
    if (!plan.algorithm().capturable) continue;
    CAPTURE(plan.algorithm().name);
    const auto bytes = static_cast<std::int64_t>(plan.packed_workspace_bytes());
    const Tensor workspace(device, DType::f32, {bytes / 4 + 1});
    const Stream own;
    Queue queue = Queue::wrap(device, own.stream);
    ConvTensors tensors = conv.tensors();
    const PackedFilters filters = plan.pack(queue, tensors.w);
    const auto w = tensors.w;
    tensors.w = {};
    expect(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeGlobal));
    plan.execute(queue, filters, tensors, workspace.data());
    const Error e = refusal([&] { plan.pack(queue, w); });
    CHECK(e.code() == ErrorCode::unsupported);
    CHECK_THAT(e.what(), ContainsSubstring("captured"));
    cudaGraph_t graph = nullptr;
    expect(cudaStreamEndCapture(own.stream, &graph));  // the capture was not broken by it
    cudaGraphExec_t executable = nullptr;
    expect(cudaGraphInstantiate(&executable, graph, 0));
    for (const float first : {2.0f, -4.0f}) {
      conv.fill_x(queue, first);
      conv.forget_y(queue);
      expect(cudaGraphLaunch(executable, own.stream));
      REQUIRE(download(queue, conv.y) == conv.expected(first));
    }
    expect(cudaGraphExecDestroy(executable));
    expect(cudaGraphDestroy(graph));
    ++captured;
  }
  REQUIRE(captured >= 4);
}

TEST_CASE("cuda: a workspace does not grow during a capture") {
  const Device device = gpu();
  const Stream own;
  Queue queue = Queue::wrap(device, own.stream);
  void* before = queue.backend().workspace(4096);
  expect(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeGlobal));
  REQUIRE(queue.backend().workspace(4096) == before);
  const Error e = refusal([&] { queue.backend().workspace(8192); });
  REQUIRE(e.code() == ErrorCode::unsupported);
  REQUIRE_THAT(e.what(), ContainsSubstring("8192") && ContainsSubstring("4096"));
  cudaGraph_t graph = nullptr;
  expect(cudaStreamEndCapture(own.stream, &graph));  // the capture was not broken by it
  expect(cudaGraphDestroy(graph));
  REQUIRE(queue.backend().workspace(8192) != nullptr);
}
#endif
