// The CUDA backend where it differs from the others: what it says without a GPU, and with one its
// memory, streams, graphs and manners. That its results are right is tested for every device.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <vector>

#include "plumb/backend.hpp"
#include "support/devices.hpp"
#include "support/refusal.hpp"
#ifdef PLUMB_TEST_CUDA
#include "support/cuda_exact.hpp"
#endif

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using plumb_test::refusal;

namespace {

BackendReport cuda_report() {
  for (const BackendReport& report : backend_reports())
    if (report.name == "cuda") return report;
  FAIL("no backend cuda in the list");
  throw;
}

}  // namespace

TEST_CASE("cuda: without a GPU it is an error with a reason, and auto goes on to the CPU") {
  const BackendReport report = cuda_report();
  if (!report.devices.empty()) SKIP("there is a GPU");
  if (plumb_test::is_required("cuda")) FAIL(report.sentence);
#ifdef PLUMB_TEST_CUDA
  REQUIRE(report.reason != Reason::module_missing);
  REQUIRE_THAT(report.version, ContainsSubstring("CUDA runtime "));
  if (report.version.find("no driver") != std::string::npos)
    REQUIRE(report.reason == Reason::no_driver);
#else
  REQUIRE(report.reason == Reason::module_missing);
#endif
  for (const char* spec : {"cuda", "cuda:0", "cuda:99"}) {
    const Error e = refusal([&] { Device::open(spec); });
    REQUIRE(e.code() == ErrorCode::device_unavailable);
    REQUIRE(e.reason() == report.reason);
    REQUIRE_THAT(e.what(), ContainsSubstring(spec) && ContainsSubstring(report.sentence));
  }
  const Device device = Device::open("auto");
  REQUIRE(device.id() == host);
  REQUIRE_THAT(device.why(), ContainsSubstring("cuda") && ContainsSubstring(report.sentence));
}

#ifdef PLUMB_TEST_CUDA
namespace {

Device gpu() { return plumb_test::device_or_skip("cuda"); }

void expect(cudaError_t status) {
  INFO(cudaGetErrorName(status));
  REQUIRE(status == cudaSuccess);
}

struct Stream {
  cudaStream_t stream = nullptr;
  Stream() { expect(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream); }
};

std::vector<float> counting(std::size_t count, float first) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i % 7);
  return values;
}

void upload(Queue& queue, const std::vector<float>& values, const Tensor& to) {
  copy(queue, ConstTensorView(values.data(), to.extents()), to);
  queue.synchronize();
}

std::vector<float> download(Queue& queue, const Tensor& from) {
  std::vector<float> values(static_cast<std::size_t>(element_count(from.extents())), -1.0f);
  copy(queue, from, TensorView(values.data(), from.extents()));
  queue.synchronize();
  return values;
}

/// A small convolution on small integers, whose result is exact whatever the order of summation.
struct SmallConv {
  ConvProblem problem;
  Tensor x, w, y;

  explicit SmallConv(const Device& device) {
    problem.n = 3;
    problem.c = 4;
    problem.h = problem.w = 9;
    problem.k = 5;
    problem.r = problem.s = 3;
    problem.padding = {1, 1, 1, 1};
    x = Tensor(device, DType::f32, problem.x_extents());
    w = Tensor(device, DType::f32, problem.w_extents());
    y = Tensor(device, DType::f32, problem.y_extents());
    Queue queue(device);
    fill_x(queue, 1);
    upload(queue, counting(static_cast<std::size_t>(element_count(w.extents())), -3), w);
  }
  void fill_x(Queue& queue, float first) {
    upload(queue, counting(static_cast<std::size_t>(element_count(x.extents())), first), x);
  }
  void forget_y(Queue& queue) {
    expect(cudaMemsetAsync(y.data(), 0xff, static_cast<std::size_t>(element_count(y.extents())) * 4,
                           static_cast<cudaStream_t>(queue.native())));
    queue.synchronize();
  }
  ConvTensors tensors() const { return {.x = x, .w = w, .y = y}; }
  /// What the oracle makes of x that begins with `first`.
  std::vector<float> expected(float first) const {
    const auto x_host = counting(static_cast<std::size_t>(element_count(x.extents())), first);
    const auto w_host = counting(static_cast<std::size_t>(element_count(w.extents())), -3);
    return plumb_test::oracle_result(check(problem), x_host, w_host);
  }
};

}  // namespace

TEST_CASE("cuda: an index that is not there is refused with the number that is") {
  gpu();
  const std::size_t count = cuda_report().devices.size();
  const Error e = refusal([] { Device::open("cuda:99"); });
  REQUIRE(e.code() == ErrorCode::device_unavailable);
  REQUIRE(e.reason() == Reason::no_device);
  REQUIRE_THAT(e.what(), ContainsSubstring("cuda:99") && ContainsSubstring(std::to_string(count)));
  Backend* backend = load_backend("cuda").backend;
  REQUIRE(refusal([&] { backend->open(static_cast<int>(count)); }).reason() == Reason::no_device);
  REQUIRE(refusal([&] { backend->open(-1); }).reason() == Reason::no_device);
}

TEST_CASE("cuda: a device says what it is") {
  const DeviceInfo info = gpu().info();
  REQUIRE(info.id == DeviceId{"cuda", 0});
  REQUIRE_FALSE(info.name.empty());
  REQUIRE(info.instruction_set ==
          "sm_" + std::to_string(info.compute_major) + std::to_string(info.compute_minor));
  REQUIRE(info.compute_major >= 8);
  REQUIRE(info.units > 0);
  REQUIRE(info.memory_bytes > (std::size_t{1} << 30));
  REQUIRE(info.shared_memory_bytes >= 48 * 1024);
  REQUIRE(info.driver_version >= 12000);
  // Any GPU with code here lies between these by far; a wrong unit does not.
  REQUIRE(info.nominal_bytes_per_second > 5e10);
  REQUIRE(info.nominal_bytes_per_second < 1e14);
  REQUIRE(info.nominal_fp32_flop_per_second > 5e11);
  REQUIRE(info.nominal_fp32_flop_per_second < 1e15);
  REQUIRE_THAT(cuda_report().version,
               ContainsSubstring("CUDA runtime ") && ContainsSubstring(", driver "));
}

TEST_CASE("cuda: pinned memory is the host's, and copies both ways") {
  const Device device = gpu();
  Queue queue(device);
  const Extents extents{1000};
  const Tensor from(device, DType::f32, extents, {}, Memory::pinned_host);
  const Tensor there(device, DType::f32, extents);
  const Tensor back(device, DType::f32, extents, {}, Memory::pinned_host);
  REQUIRE(from.view().device() == host);
  REQUIRE(there.view().device() == device.id());
  cudaPointerAttributes attributes{};
  expect(cudaPointerGetAttributes(&attributes, from.data()));
  REQUIRE(attributes.type == cudaMemoryTypeHost);
  expect(cudaPointerGetAttributes(&attributes, there.data()));
  REQUIRE(attributes.type == cudaMemoryTypeDevice);
  REQUIRE(reinterpret_cast<std::uintptr_t>(there.data()) % 256 == 0);

  const std::vector<float> values = counting(1000, 5);
  std::copy(values.begin(), values.end(), from.data_as<float>());
  std::fill_n(back.data_as<float>(), 1000, 0.0f);
  copy(queue, from, there);
  copy(queue, there, back);
  queue.synchronize();
  REQUIRE(std::equal(values.begin(), values.end(), back.data_as<float>()));
}

TEST_CASE("cuda: the caller's stream is used and left alone") {
  const Device device = gpu();
  SmallConv conv(device);
  const Stream own;
  for (cudaStream_t stream : {own.stream, cudaStream_t{nullptr}}) {
    {
      Queue queue = Queue::wrap(device, stream);
      REQUIRE(queue.native() == stream);
      conv.forget_y(queue);
      ConvPlan(device, conv.problem).execute(queue, conv.tensors());
      expect(cudaStreamSynchronize(stream));
      REQUIRE(download(queue, conv.y) == conv.expected(1));
      queue.backend().workspace(1 << 20);
    }
    expect(cudaStreamSynchronize(stream));  // it is still there
  }
}

TEST_CASE("cuda: events measure, order queues, and outlive what made them") {
  const auto [before, after] = [] {
    const Device device = gpu();
    Queue queue(device);
    const Tensor x(device, DType::f32, {1 << 24}), y(device, DType::f32, {1 << 24});
    relu(queue, x, y);  // so that loading the kernel is not timed
    const Event first = queue.record();
    relu(queue, x, y);
    const Event second = queue.record();
    Queue other(device);
    other.wait(second);
    other.synchronize();
    REQUIRE(second.done());
    REQUIRE(first.done());
    return std::pair(first, second);
  }();
  const double seconds = seconds_between(before, after);
  REQUIRE(seconds > 1e-6);  // 128 MiB must move
  REQUIRE(seconds < 1);
}

TEST_CASE("cuda: a queue follows another by an event") {
  const Device device = gpu();
  SmallConv conv(device);
  const ConvPlan plan(device, conv.problem);
  const Tensor positive(device, DType::f32, conv.y.extents());
  Queue producer(device), consumer(device);
  for (int round = 0; round < 20; ++round) {
    const float first = static_cast<float>(round % 3);
    conv.fill_x(producer, first);
    plan.execute(producer, conv.tensors());
    consumer.wait(producer.record());
    relu(consumer, conv.y, positive);
    std::vector<float> expected = conv.expected(first);
    for (float& value : expected) value = std::max(value, 0.0f);
    REQUIRE(download(consumer, positive) == expected);
    producer.wait(consumer.record());
  }
}

TEST_CASE("cuda: the workspace grows in the stream's order") {
  const Device device = gpu();
  Queue queue(device);
  const auto stream = static_cast<cudaStream_t>(queue.native());
  constexpr std::size_t small_bytes = 1 << 20, large_bytes = 64 << 20;
  const Tensor seen(device, DType::f32, {small_bytes / 4}, {}, Memory::pinned_host);

  void* small = queue.backend().workspace(small_bytes);
  REQUIRE(reinterpret_cast<std::uintptr_t>(small) % 256 == 0);
  REQUIRE(queue.backend().workspace(small_bytes / 2) == small);
  expect(cudaMemsetAsync(small, 0x2a, small_bytes, stream));
  expect(cudaMemcpyAsync(seen.data(), small, small_bytes, cudaMemcpyDefault, stream));
  void* large = queue.backend().workspace(large_bytes);  // while that is still under way
  REQUIRE(reinterpret_cast<std::uintptr_t>(large) % 256 == 0);
  expect(cudaMemsetAsync(large, 0x55, large_bytes, stream));
  queue.synchronize();
  const auto* bytes = seen.data_as<unsigned char>();
  REQUIRE(std::all_of(bytes, bytes + small_bytes, [](unsigned char b) { return b == 0x2a; }));
  REQUIRE(queue.backend().workspace(small_bytes) == large);
}

// compute-sanitizer counts the failing allocation itself as an error: leave this tag out there, or
// turn off its reports of API errors.
TEST_CASE("cuda: out of memory names the sizes, and the device goes on", "[out_of_memory]") {
  const Device device = gpu();
  const auto elements = static_cast<std::int64_t>(device.info().memory_bytes / 2);
  const std::string bytes = std::to_string(elements * 4);
  Queue queue(device);
  const Error tensor = refusal([&] { Tensor(device, DType::f32, {elements}); });
  REQUIRE(tensor.code() == ErrorCode::out_of_memory);
  REQUIRE_THAT(tensor.what(), ContainsSubstring(bytes) && ContainsSubstring("cuda:0") &&
                                  ContainsSubstring("free") &&
                                  ContainsSubstring("cudaErrorMemoryAllocation"));
  const Error workspace =
      refusal([&] { queue.backend().workspace(static_cast<std::size_t>(elements) * 4); });
  REQUIRE(workspace.code() == ErrorCode::out_of_memory);
  REQUIRE_THAT(workspace.what(), ContainsSubstring(bytes));

  SmallConv conv(device);
  ConvPlan(device, conv.problem).execute(queue, conv.tensors());
  REQUIRE(download(queue, conv.y) == conv.expected(1));
  REQUIRE(queue.backend().workspace(256) != nullptr);
}

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

TEST_CASE("cuda: the caller's current device stays current") {
  gpu();
  const int count = static_cast<int>(cuda_report().devices.size());
  if (count < 2) SKIP("one GPU: there is no other to be current");
  for (int current = 0; current < 2; ++current) {
    const int used = 1 - current;
    expect(cudaSetDevice(current));
    const auto still_current = [&] {
      int now = -1;
      expect(cudaGetDevice(&now));
      return now == current;
    };
    {
      const Device device = Device::open("cuda:" + std::to_string(used));
      REQUIRE(still_current());
      REQUIRE(device.free_bytes() > 0);
      REQUIRE(still_current());
      Queue queue(device);
      const Tensor x(device, DType::f32, {64, 64}), y(device, DType::f32, {64, 64});
      const Tensor pinned(device, DType::f32, {64, 64}, {}, Memory::pinned_host);
      REQUIRE(still_current());
      std::fill_n(pinned.data_as<float>(), 64 * 64, -2.0f);
      copy(queue, pinned, x);
      relu(queue, x, y);
      softmax(queue, x, y);
      copy(queue, y, pinned);
      REQUIRE(still_current());
      const Event event = queue.record();
      queue.wait(event);
      event.synchronize();
      REQUIRE(event.done());
      REQUIRE(still_current());
      REQUIRE(pinned.data_as<float>()[0] == 1.0f / 64);
      queue.backend().workspace(4096);
      REQUIRE(still_current());
    }
    REQUIRE(still_current());
  }
  expect(cudaSetDevice(0));
}
#endif
