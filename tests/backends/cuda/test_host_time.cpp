// What a launch takes of the host with a real driver: nothing is planned in it.
#ifdef PLUMB_TEST_CUDA
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string_view>

#include "plumb/backend.hpp"
#include "support/cuda_exact.hpp"
#include "support/devices.hpp"

using namespace plumb;

TEST_CASE("cuda: host time of a launch is measured, the driver's part included", "[timed]") {
  const Device device = plumb_test::device_or_skip("cuda");
  Queue queue(device);
  const Tensor x(device, DType::f32, {1, 3, 32, 32}), w(device, DType::f32, {16, 3, 3, 3});
  Tensor y(device, DType::f32, {1, 16, 30, 30});
  const ConvTensors tensors{.x = x, .w = w, .bias = {}, .y = y};
  const ConvProblem problem = problem_of(tensors, {});
  int timed = 0;
  for (const ConvAlgorithm* const algorithm : conv_algorithms(device)) {
    const std::string_view name = algorithm->name;
    if (name != "cuda.conv.direct.fp32" && name != "cuda.conv.few_channels_split.fp16x3" &&
        name != "cuda.conv.interleaved.fp16x3")
      continue;
    if (!algorithm->plan(problem, device.info()).support) continue;  // interleaved: sm_90a alone
    ++timed;
    const ConvPlan plan(device, problem, plumb_test::forcing(*algorithm));
    const PackedFilters packed = plan.packs_filters() ? plan.pack(queue, w) : PackedFilters();
    const ConvTensors without_w{.x = x, .w = {}, .bias = {}, .y = y};
    double fastest = 1e9;
    for (int batch = 0; batch < 50; ++batch) {
      constexpr int calls = 100;  // fewer than a stream takes before its launches wait
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < calls; ++i)
        if (plan.packs_filters())
          plan.execute(queue, packed, without_w);
        else
          plan.execute(queue, tensors);
      const std::chrono::duration<double, std::micro> taken =
          std::chrono::steady_clock::now() - begin;
      queue.synchronize();
      fastest = std::min(fastest, taken.count() / calls);
    }
    WARN(name << ": " << fastest << " us of the host for a launch");
    CHECK(fastest < 10);
  }
  CHECK(timed >= 2);
}
#endif
