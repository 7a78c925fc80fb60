// Filters in constant memory, which is one for a whole module: convolutions that run at the same
// time must not see each other's.
#ifdef PLUMB_TEST_CUDA
#include <cuda_runtime_api.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <exception>
#include <thread>
#include <vector>

#include "devices.hpp"
#include "host_tensor.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using plumb_test::Random;

namespace {

Device gpu() { return plumb_test::device_or_skip("cuda"); }

std::vector<const ConvAlgorithm*> constant_memory_algorithms(const Device& device) {
  std::vector<const ConvAlgorithm*> found;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device))
    if (algorithm->name.find("constant") != std::string_view::npos) found.push_back(algorithm);
  REQUIRE(found.size() >= 3);
  return found;
}

ConvOptions forcing(const ConvAlgorithm& algorithm) {
  return {.algorithm = std::string(algorithm.name)};
}

std::vector<float> integers(const Extents& extents, std::uint32_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(element_count(extents)));
  for (float& value : values) value = static_cast<float>(random.integer(-4, 4));
  return values;
}

Tensor uploaded(Queue& queue, const std::vector<float>& values, const Extents& extents) {
  Tensor tensor(queue.device(), DType::f32, extents);
  copy(queue, ConstTensorView(values.data(), extents), tensor);
  queue.synchronize();
  return tensor;
}

std::vector<float> download(Queue& queue, const Tensor& from) {
  std::vector<float> values(static_cast<std::size_t>(element_count(from.extents())));
  copy(queue, from, TensorView(values.data(), from.extents()));
  queue.synchronize();
  return values;
}

/// One convolution on small integers: its tensors on the device and its result, which is exact
/// whatever the order of summation.
struct Work {
  ConvProblem problem;
  Tensor x, w, y;
  std::vector<float> expected;

  Work(Queue& queue, const ConvProblem& shape, std::uint32_t seed) : problem(shape) {
    const std::vector<float> pixels = integers(problem.x_extents(), seed);
    const std::vector<float> filters = integers(problem.w_extents(), seed + 1);
    x = uploaded(queue, pixels, problem.x_extents());
    w = uploaded(queue, filters, problem.w_extents());
    y = Tensor(queue.device(), DType::f32, problem.y_extents());
    for (const OracleTerm& term :
         conv_oracle(check(problem), ConstTensorView(pixels.data(), problem.x_extents()),
                     ConstTensorView(filters.data(), problem.w_extents())))
      expected.push_back(static_cast<float>(term.y));
  }
  ConvTensors tensors() const { return {.x = x, .w = w, .y = y}; }
  void forget_y(Queue& queue) const {
    const auto bytes = static_cast<std::size_t>(element_count(y.extents())) * sizeof(float);
    if (cudaMemsetAsync(y.data(), 0xff, bytes, static_cast<cudaStream_t>(queue.native())) !=
        cudaSuccess)
      throw Error(ErrorCode::device_failure, "cudaMemsetAsync");
  }
};

/// Filters of a few bytes, of a part of the bank, and of nearly all of it.
std::vector<ConvProblem> problems() {
  std::vector<ConvProblem> all;
  for (const char* text : {"mb64ic2ih20oc3kh3ph1", "mb32ic4ih24oc16kh7", "mb16ic12ih20oc24kh7ph3"})
    all.push_back(parse_problem(text).problem);
  return all;
}

struct Stream {
  cudaStream_t stream = nullptr;
  Stream() { REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess); }
  ~Stream() { cudaStreamDestroy(stream); }
};

}  // namespace

TEST_CASE("cuda: filters in constant memory keep apart on several streams and threads") {
  const Device device = gpu();
  constexpr int threads = 2, rounds = 12;
  // Each thread goes through all problems again and again, one behind the other on its stream and
  // without waiting: runs of every length follow each other through the bank.
  std::vector<std::vector<Work>> works(threads);
  Queue setup(device);
  std::uint32_t seed = 1;
  for (std::vector<Work>& own : works)
    for (const ConvProblem& problem : problems())
      for (int copies = 0; copies < 2; ++copies) own.emplace_back(setup, problem, seed += 2);

  for (const ConvAlgorithm* algorithm : constant_memory_algorithms(device)) {
    CAPTURE(algorithm->name);
    std::vector<std::exception_ptr> failures(threads);
    std::vector<int> wrong(threads, 0);
    const auto run = [&](std::size_t thread) {
      try {
        Queue queue(device);
        std::vector<ConvPlan> plans;
        for (const Work& work : works[thread])
          plans.emplace_back(device, work.problem, forcing(*algorithm));
        for (int round = 0; round < rounds; ++round) {
          for (std::size_t i = 0; i < plans.size(); ++i) {
            works[thread][i].forget_y(queue);
            plans[i].execute(queue, works[thread][i].tensors());
          }
          for (const Work& work : works[thread])
            wrong[thread] += download(queue, work.y) != work.expected;
        }
      } catch (...) {
        failures[thread] = std::current_exception();
      }
    };
    std::thread other([&] { run(1); });
    run(0);
    other.join();
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);
    CHECK(wrong == std::vector<int>(threads, 0));
  }
}

TEST_CASE("cuda: filters beyond constant memory are refused with the bytes") {
  const Device device = gpu();
  const ConvProblem fits = parse_problem("mb1ic64ih8oc256kh1").problem;      // 65,536 bytes
  const ConvProblem too_many = parse_problem("mb1ic64ih8oc257kh1").problem;  // 65,792 bytes
  for (const ConvAlgorithm* algorithm : constant_memory_algorithms(device)) {
    CAPTURE(algorithm->name);
    CHECK(algorithm->supports(check(fits), device.info()));
    const Support refused = algorithm->supports(check(too_many), device.info());
    CHECK(refused.reason == Reason::device_limit);
    CHECK_THAT(refused.sentence, ContainsSubstring("65792") && ContainsSubstring("65536"));
    CHECK_THROWS_AS(ConvPlan(device, too_many, forcing(*algorithm)), Error);

    Queue queue(device);
    const Work work(queue, fits, 7);
    work.forget_y(queue);
    ConvPlan(device, fits, forcing(*algorithm)).execute(queue, work.tensors());
    CHECK(download(queue, work.y) == work.expected);
  }
}

TEST_CASE("cuda: filters in constant memory cannot be captured, and the stream goes on") {
  const Device device = gpu();
  for (const ConvAlgorithm* algorithm : constant_memory_algorithms(device)) {
    CAPTURE(algorithm->name);
    CHECK_FALSE(algorithm->capturable);
    const Stream own;
    Queue queue = Queue::wrap(device, own.stream);
    const Work work(queue, problems().front(), 11);
    work.forget_y(queue);
    queue.synchronize();
    const ConvPlan plan(device, work.problem, forcing(*algorithm));

    REQUIRE(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    try {
      plan.execute(queue, work.tensors());
      FAIL_CHECK("an Error was expected");
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::unsupported);
      CHECK_THAT(e.what(), ContainsSubstring("captured"));
    }
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(own.stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);

    plan.execute(queue, work.tensors());
    CHECK(download(queue, work.y) == work.expected);
  }
}
#endif
