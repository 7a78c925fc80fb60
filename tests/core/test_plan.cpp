// Planning: the choice, its reasons, the cache, and what execute() refuses.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <thread>
#include <vector>

#include "support/devices.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// Sets an environment variable for one scope.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

ConvProblem small() {
  ConvProblem problem;
  problem.n = 2, problem.c = 3, problem.h = 9, problem.w = 10;
  problem.k = 4, problem.r = 3, problem.s = 3;
  return problem;
}

/// Tensors of a problem, dense, filled with small whole numbers.
struct Data {
  explicit Data(const ConvProblem& p)
      : x(element_count(p.x_extents())),
        w(element_count(p.w_extents())),
        bias(static_cast<std::size_t>(p.k)),
        y(element_count(p.y_extents())),
        problem(p) {
    int next = 0;
    for (auto* values : {&x, &w, &bias})
      for (float& value : *values) value = static_cast<float>(next++ % 7 - 3);
  }
  ConvTensors tensors() {
    return {.x = ConstTensorView(x.data(), problem.x_extents()),
            .w = ConstTensorView(w.data(), problem.w_extents()),
            .bias = {},
            .y = TensorView(y.data(), problem.y_extents())};
  }
  std::vector<float> x, w, bias, y;
  ConvProblem problem;
};

}  // namespace

TEST_CASE("every algorithm is explained and one is chosen") {
  for (const Device& device : plumb_test::all_devices()) {
    const auto candidates = explain(device, small());
    REQUIRE_FALSE(candidates.empty());
    REQUIRE(std::count_if(candidates.begin(), candidates.end(),
                          [](const auto& c) { return c.chosen; }) == 1);
    for (const ConvCandidate& candidate : candidates) {
      CAPTURE(candidate.algorithm);
      // Ours are named after their backend; another library's after the library, and never chosen.
      const bool ours =
          candidate.algorithm.starts_with(std::string(device.id().backend) + ".conv.");
      REQUIRE((ours || candidate.support.reason == Reason::forced_only));
      REQUIRE(candidate.support.sentence.empty() == static_cast<bool>(candidate.support));
      if (candidate.support) REQUIRE(candidate.estimate_seconds > 0);
    }
  }
}

TEST_CASE("a forced algorithm runs, an unknown one is refused") {
  for (const Device& device : plumb_test::all_devices()) {
    for (const ConvCandidate& candidate : explain(device, small())) {
      if (!candidate.support) continue;
      ConvOptions options;
      options.algorithm = candidate.algorithm;
      REQUIRE(ConvPlan(device, small(), options).algorithm().name == candidate.algorithm);
      const Setting setting("PLUMB_CONV_ALGORITHM", options.algorithm.c_str());
      REQUIRE(ConvPlan(device, small()).algorithm().name == candidate.algorithm);
    }
    ConvOptions options;
    options.algorithm = "cpu.conv.guess";
    REQUIRE_THROWS_MATCHES(ConvPlan(device, small(), options), Error,
                           MessageMatches(ContainsSubstring("cpu.conv.guess")));
  }
}

TEST_CASE("options rule algorithms out, with a reason") {
  const Device cpu = Device::open("cpu");
  ConvOptions options;
  options.math = Math::fp64;
  const auto all = explain(cpu, small()), exact = explain(cpu, small(), options);
  REQUIRE(exact.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].algorithm);
    REQUIRE(exact[i].algorithm == all[i].algorithm);
    if (!all[i].support)  // another direction's, or only by name
      REQUIRE_FALSE(exact[i].support);
    else
      REQUIRE(exact[i].support.reason ==
              (all[i].error_class == Math::fp64 ? Reason::none : Reason::math));
  }
  options = {};
  options.workspace_limit_bytes = 1;
  REQUIRE_THROWS_MATCHES(ConvPlan(cpu, small(), options), Error,
                         MessageMatches(ContainsSubstring("workspace_limit")));
}

TEST_CASE("execute refuses tensors that are not what was planned") {
  const Device cpu = Device::open("cpu");
  Queue queue(cpu);
  const ConvProblem problem = check(small());
  const ConvPlan plan(cpu, problem);
  Data data(problem);
  const auto refused = [&](const ConvTensors& tensors, const std::string& words) {
    REQUIRE_THROWS_MATCHES(plan.execute(queue, tensors), Error,
                           MessageMatches(ContainsSubstring(words)));
  };
  ConvTensors tensors = data.tensors();
  plan.execute(queue, tensors);
  tensors.x = ConstTensorView(data.x.data(), {1, 3, 9, 10});
  refused(tensors, "[1, 3, 9, 10]");
  tensors = data.tensors();
  tensors.w = {};
  refused(tensors, "w is missing");
  tensors = data.tensors();
  tensors.bias = ConstTensorView(data.bias.data(), {4});
  refused(tensors, "made without");
  tensors = data.tensors();
  tensors.x = ConstTensorView(data.x.data(), DType::f32, problem.x_extents(), DeviceId{"cuda", 0});
  refused(tensors, "x is on cuda:0");
  tensors = data.tensors();
  tensors.y = TensorView(static_cast<void*>(nullptr), DType::f32, problem.y_extents());
  refused(tensors, "null");
  tensors = data.tensors();
  tensors.x = ConstTensorView(data.x.data(), DType::f16, problem.x_extents());
  refused(tensors, "x is f16");
  REQUIRE_THROWS_MATCHES(plan.execute(queue, data.tensors(), reinterpret_cast<std::byte*>(0) + 8),
                         Error, MessageMatches(ContainsSubstring("multiple of 256")));
}

TEST_CASE("a batch of zero is nothing to do") {
  for (const Device& device : plumb_test::all_devices()) {
    Queue queue(device);
    ConvProblem problem = small();
    problem.n = 0;
    const Tensor x(device, DType::f32, problem.x_extents());
    const Tensor w(device, DType::f32, problem.w_extents());
    const Tensor y(device, DType::f32, problem.y_extents());
    conv(queue, {.x = x, .w = w, .y = y});
    queue.synchronize();
  }
}

TEST_CASE("one plan serves several threads on several queues") {
  const ConvProblem problem = check(small());
  for (const Device& device : plumb_test::all_devices()) {
    const ConvPlan plan(device, problem);
    Data data(problem);
    Queue setup(device);
    const Tensor x(device, DType::f32, problem.x_extents());
    const Tensor w(device, DType::f32, problem.w_extents());
    copy(setup, data.tensors().x, x);
    copy(setup, data.tensors().w, w);
    setup.synchronize();
    const auto run = [&](std::vector<float>& out) {
      Queue queue(device);
      const Tensor y(device, DType::f32, problem.y_extents());
      for (int repeat = 0; repeat < 10; ++repeat) plan.execute(queue, {.x = x, .w = w, .y = y});
      copy(queue, y, TensorView(out.data(), problem.y_extents()));
      queue.synchronize();
    };
    std::vector<std::vector<float>> results(16, std::vector<float>(data.y.size()));
    std::vector<std::thread> threads;
    for (auto& result : results) threads.emplace_back([&] { run(result); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& result : results) REQUIRE(result == results[0]);
    REQUIRE(std::any_of(results[0].begin(), results[0].end(), [](float v) { return v != 0; }));
  }
}

TEST_CASE("conv plans once and takes the plan from the cache after that") {
  const Device cpu = Device::open("cpu");
  Queue queue(cpu);
  Data data(check(small()));
  const auto plans_printed = [&] {
    // PLUMB_VERBOSE prints a line for each choice that is really made.
    std::FILE* capture = std::tmpfile();
    const int saved = dup(2);
    dup2(fileno(capture), 2);
    {
      const Setting setting("PLUMB_VERBOSE", "1");
      conv(queue, data.tensors());
    }
    std::fflush(stderr);
    dup2(saved, 2);
    close(saved);
    std::rewind(capture);
    int lines = 0;
    for (int c; (c = std::fgetc(capture)) != EOF;) lines += c == '\n';
    std::fclose(capture);
    return lines;
  };
  REQUIRE(plans_printed() == 1);
  REQUIRE(plans_printed() == 0);
}
