// A GPU that fails in the middle of the work. What needs no GPU to go wrong is in faults/.
#ifdef PLUMB_TEST_CUDA
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <vector>

#include "broken_kernel.hpp"
#include "faults/fault.hpp"
#include "support/devices.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// All of the device's memory but some ten megabytes.
std::vector<Tensor> take_all_memory(const Device& device) {
  std::vector<Tensor> taken;
  for (std::int64_t bytes = std::int64_t{1} << 36; bytes >= std::int64_t{1} << 23;) {
    try {
      taken.emplace_back(device, DType::f32, Extents{bytes / 4});
    } catch (const Error& e) {
      REQUIRE(e.code() == ErrorCode::out_of_memory);
      bytes /= 2;
    }
  }
  return taken;
}

void require_explained(const Device& cpu, const ConvProblem& problem, Reason reason) {
  REQUIRE(cpu.id() == host);
  REQUIRE(cpu.passed_over().back().backend == "cuda");
  REQUIRE(cpu.passed_over().back().reason == reason);
  REQUIRE(explain(cpu, problem).back().support.reason == reason);
}

}  // namespace

TEST_CASE("cuda: the device's memory runs out in the middle", "[.][memory]") {
  const Device named = device_or_skip("cuda"), device = Device::open("auto");
  REQUIRE(device.id().backend == "cuda");
  // A workspace of 256 MiB, which the queue is asked for when the plan runs.
  ConvProblem problem;
  problem.n = 64, problem.c = 16, problem.h = 128, problem.w = 128;
  problem.k = 2, problem.r = 3, problem.s = 3;
  const ConvPlan plan(named, problem, {.algorithm = "cuda.conv.im2col_gemm.fp32.16x16"});
  REQUIRE(plan.workspace_bytes() > std::size_t{1} << 25);
  Queue queue(named);
  const Tensor x(named, DType::f32, problem.x_extents());
  const Tensor w(named, DType::f32, problem.w_extents());
  const Tensor y(named, DType::f32, problem.y_extents());
  std::vector<float> ones(static_cast<std::size_t>(element_count(problem.x_extents())), 1);
  std::vector<float> out(static_cast<std::size_t>(element_count(problem.y_extents())));
  copy(queue, ConstTensorView(ones.data(), problem.x_extents()), x);
  copy(queue, ConstTensorView(ones.data(), problem.w_extents()), w);
  queue.synchronize();

  HostCase test;
  std::vector<Tensor> taken = take_all_memory(named);
  const Error no_workspace = refusal([&] { plan.execute(queue, {.x = x, .w = w, .y = y}); });
  REQUIRE(no_workspace.code() == ErrorCode::out_of_memory);
  REQUIRE_THAT(no_workspace.what(), ContainsSubstring("bytes") && ContainsSubstring("free"));
  const ConvTensors large{.x = ConstTensorView(ones.data(), problem.x_extents()),
                          .w = ConstTensorView(ones.data(), problem.w_extents()),
                          .bias = {},
                          .y = TensorView(out.data(), problem.y_extents())};
  const PipelineOptions whole{.memory_budget_bytes = std::size_t{1} << 32,
                              .images_per_segment = problem.n};
  require_explained(conv_host(device, large, {}, {}, whole), check(problem), Reason::out_of_memory);
  CHECK(std::all_of(out.begin(), out.end(), [](float value) { return value == 16 * 9; }));
  CHECK(refusal([&] { conv_host(named, large, {}, {}, whole); }).code() ==
        ErrorCode::out_of_memory);

  // With memory again, what was planned runs, on tensors that are as they were.
  taken.clear();
  std::fill(out.begin(), out.end(), 0.0f);
  plan.execute(queue, {.x = x, .w = w, .y = y});
  copy(queue, y, TensorView(out.data(), problem.y_extents()));
  queue.synchronize();
  CHECK(std::all_of(out.begin(), out.end(), [](float value) { return value == 16 * 9; }));
  CHECK(conv_host(device, test.tensors()).id() == device.id());
  CHECK(test.right());
}

TEST_CASE("cuda: a kernel that breaks the device for good", "[.][sticky]") {
  const Device named = device_or_skip("cuda"), device = Device::open("auto");
  REQUIRE(device.id().backend == "cuda");
  HostCase test;
  const Tensor pinned(named, DType::f32, {1000}, {}, Memory::pinned_host);
  const Tensor on_device(named, DType::f32, {1000});
  std::fill_n(pinned.data_as<float>(), 1000, 3.0f);
  Queue queue(named);
  copy(queue, ConstTensorView(pinned.data(), DType::f32, {1000}), on_device);
  queue.synchronize();
  launch_broken_kernel();

  require_explained(conv_host(device, test.tensors()), test.problem(), Reason::device_error);
  REQUIRE(test.right());
  test.forget();
  const Error error = refusal([&] { conv_host(named, test.tensors()); });
  CHECK(error.code() == ErrorCode::device_failure);
  CHECK_THAT(error.what(), ContainsSubstring("cudaError"));
  CHECK(test.inputs_kept());
  CHECK(refusal([&] { queue.synchronize(); }).code() == ErrorCode::device_failure);
  CHECK(std::all_of(pinned.data_as<float>(), pinned.data_as<float>() + 1000,
                    [](float value) { return value == 3; }));

  // Whoever opens a device now is told; `auto` goes on, and every destructor here is quiet.
  require_explained(Device::open("auto"), test.problem(), Reason::device_error);
  CHECK(refusal([] { Device::open("cuda"); }).reason() == Reason::device_error);
  CHECK(conv_host(Device::open("auto"), test.tensors()).id() == host);
  CHECK(test.right());
}
#endif
