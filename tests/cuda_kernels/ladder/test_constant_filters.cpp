// Filters in constant memory, which is one for a whole module: convolutions that run at the same
// time must not see each other's.
#ifdef PLUMB_TEST_CUDA
#include <catch2/matchers/catch_matchers_string.hpp>
#include <exception>
#include <thread>

#include "support/cuda_exact.hpp"
#include "support/devices.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using plumb_test::ExactConv;
using plumb_test::forcing;

namespace {

Device gpu() { return plumb_test::device_or_skip("cuda"); }

std::vector<const ConvAlgorithm*> constant_memory_algorithms(const Device& device) {
#ifndef PLUMB_TEST_LADDER
  SKIP("built without the ladder");
#endif
  std::vector<const ConvAlgorithm*> found;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device))
    if (algorithm->name.find("constant") != std::string_view::npos) found.push_back(algorithm);
  REQUIRE(found.size() >= 3);
  return found;
}

/// Filters of a few bytes, of a part of the bank, and of nearly all of it.
std::vector<ConvProblem> problems() {
  std::vector<ConvProblem> all;
  for (const char* text : {"mb64ic2ih20oc3kh3ph1", "mb32ic4ih24oc16kh7", "mb16ic12ih20oc24kh7ph3"})
    all.push_back(parse_problem(text).problem);
  return all;
}

/// What one thread does: all its convolutions again and again on a stream of its own, one behind
/// the other without waiting, so that runs of every length follow each other through the bank.
struct Worker {
  std::vector<ExactConv> convs;
  int wrong = 0;
  std::exception_ptr failure;

  void run(const Device& device, const ConvAlgorithm& algorithm) {
    try {
      constexpr int rounds = 12;
      Queue queue(device);
      std::vector<ConvPlan> plans;
      for (const ExactConv& conv : convs)
        plans.emplace_back(device, conv.problem(), forcing(algorithm));
      for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < convs.size(); ++i) convs[i].execute(queue, plans[i]);
        for (const ExactConv& conv : convs) wrong += !conv.is_right(queue);
      }
    } catch (...) {
      failure = std::current_exception();
    }
  }
};

}  // namespace

TEST_CASE("cuda: filters in constant memory keep apart on several streams and threads") {
  const Device device = gpu();
  Queue setup(device);
  Worker workers[2];
  std::uint32_t seed = 1;
  for (Worker& worker : workers)
    for (const ConvProblem& problem : problems())
      for (int different = 0; different < 2; ++different)
        worker.convs.emplace_back(setup, problem, seed += 2);

  for (const ConvAlgorithm* algorithm : constant_memory_algorithms(device)) {
    CAPTURE(algorithm->name);
    std::thread other([&] { workers[1].run(device, *algorithm); });
    workers[0].run(device, *algorithm);
    other.join();
    for (const Worker& worker : workers) {
      if (worker.failure) std::rethrow_exception(worker.failure);
      CHECK(worker.wrong == 0);
    }
  }
}

TEST_CASE("cuda: filters beyond constant memory are refused with the bytes") {
  const Device device = gpu();
  const ConvProblem fits = check(parse_problem("mb1ic64ih8oc256kh1").problem);
  const ConvProblem too_many = check(parse_problem("mb1ic64ih8oc257kh1").problem);
  Queue queue(device);
  const ExactConv conv(queue, fits, 7);
  for (const ConvAlgorithm* algorithm : constant_memory_algorithms(device)) {
    CAPTURE(algorithm->name);
    const Support refused = algorithm->plan(too_many, device.info()).support;
    CHECK(refused.reason == Reason::device_limit);
    CHECK_THAT(refused.sentence, ContainsSubstring("65792") && ContainsSubstring("65536"));
    CHECK_THROWS_AS(ConvPlan(device, too_many, forcing(*algorithm)), Error);

    conv.execute(queue, ConvPlan(device, fits, forcing(*algorithm)));  // 65,536 bytes of filters
    CHECK(conv.is_right(queue));
  }
}

TEST_CASE("cuda: filters in constant memory cannot be captured, and the stream goes on") {
  const Device device = gpu();
  const plumb_test::Stream own;
  Queue queue = Queue::wrap(device, own.stream);
  const ExactConv conv(queue, problems().front(), 11);
  for (const ConvAlgorithm* algorithm : constant_memory_algorithms(device)) {
    CAPTURE(algorithm->name);
    CHECK_FALSE(algorithm->capturable);
    const ConvPlan plan(device, conv.problem(), forcing(*algorithm));

    REQUIRE(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    try {
      conv.execute(queue, plan);
      FAIL_CHECK("an Error was expected");
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::unsupported);
      CHECK_THAT(e.what(), ContainsSubstring("captured"));
    }
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(own.stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);

    conv.execute(queue, plan);
    CHECK(conv.is_right(queue));
  }
}
#endif
