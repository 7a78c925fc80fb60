// Threads, queues, memory and the instruction set of the CPU's convolution algorithms.
#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <thread>
#include <vector>

#include "conv_case.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::cpu_conv;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("cpu conv: the same bits for any number of threads") {
  // The caller's setting, found at run time: tests are built without OpenMP.
  const auto set_threads =
      reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  const auto max_threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  REQUIRE(set_threads);
  REQUIRE(max_threads);
  const int before = max_threads();
  Random random(5);
  for (const ConvProblem& shape : shapes()) {
    Case data(shape);
    data.fill([&] { return random.normal(); });
    for (const char* algorithm : algorithms) {
      if (!runs(algorithm, data.problem)) continue;
      CAPTURE(to_string(data.problem), algorithm);
      std::vector<std::byte> first;
      for (const int threads : {1, 2, 3, 7}) {
        set_threads(threads);
        const Device device = Device::open("cpu");
        CHECK(device.info().units == threads);
        data.run(device, forced(algorithm));
        if (first.empty()) first = data.y.bytes();
        CHECK(data.y.bytes() == first);
      }
    }
  }
  set_threads(before);
}

// A NaN of the padding, where a weight is Inf, is summed anew: not those of a whole image.
TEST_CASE("cpu conv: an image of NaN takes about as long as another", "[timed]") {
  using Clock = std::chrono::steady_clock;
  const Device device = Device::open("cpu");
  Case data(make(2, 64, 28, 28, 32, 3, 3, geometry({1, 1}, {1, 1}, {1, 1, 1, 1})));
  data.fill([] { return 1; });
  const auto shortest = [&](const char* algorithm) {
    auto least = Clock::duration::max();
    for (int i = 0; i < 5; ++i) {
      const auto begin = Clock::now();
      data.run(device, forced(algorithm));
      least = std::min(least, Clock::now() - begin);
    }
    return std::chrono::duration<double>(least).count();
  };
  for (const char* algorithm : algorithms) {
    data.x.fill([] { return 1; });
    const double of_ones = shortest(algorithm);
    data.x.fill([] { return NAN; });
    CAPTURE(algorithm);
    CHECK(shortest(algorithm) < 20 * of_ones);  // it was 200 to 450
    CHECK(std::isnan(data.y.values().front()));
  }
}

TEST_CASE("cpu conv: one plan on several queues at once") {
  const Device device = Device::open("cpu");
  Random random(6);
  Case data(make(4, 5, 20, 20, 6, 3, 3));
  data.fill([&] { return random.normal(); });
  data.run(device, forced(algorithms[0]));
  const ConvPlan plan(device, data.problem, forced(algorithms[0]));
  std::vector<HostTensor> results(4, HostTensor(DType::f32, data.problem.y_extents()));
  std::vector<std::thread> threads;
  for (HostTensor& y : results)
    threads.emplace_back([&plan, &data, &y, &device] {
      Queue queue(device);
      for (int i = 0; i < 5; ++i)
        plan.execute(queue, {data.x.view(), data.w.view(), data.bias.view(), y.view()});
    });
  for (std::thread& thread : threads) thread.join();
  for (const HostTensor& y : results) CHECK(y.bytes() == data.y.bytes());
}

TEST_CASE("cpu conv: a workspace of the declared size is enough, whatever lies in it") {
  const Device device = Device::open("cpu");
  Random random(7);
  for (ConvProblem problem : shapes())
    for (const DType dtype : {DType::f32, DType::f16}) {
      problem.dtype = dtype;
      Case data(problem);
      data.fill([&] { return random.normal(); });
      for (const char* algorithm : algorithms) {
        if (!runs(algorithm, data.problem)) continue;
        CAPTURE(to_string(data.problem), algorithm);
        data.run(device, forced(algorithm));
        const std::vector<std::byte> expected = data.y.bytes();
        const ConvPlan plan(device, data.problem, forced(algorithm));
        const auto bytes = static_cast<std::int64_t>(plan.workspace_bytes());
        const Tensor workspace(device, DType::bf16, {bytes / 2 + 256});
        auto* memory = workspace.data_as<unsigned char>();
        std::fill_n(memory, bytes + 512, static_cast<unsigned char>(0xff));  // NaN
        Queue queue(device);
        plan.execute(queue, {data.x.view(), data.w.view(), data.bias.view(), data.y.view()},
                     memory);
        CHECK(std::all_of(memory + bytes, memory + bytes + 512,
                          [](unsigned char byte) { return byte == 0xff; }));
        CHECK(data.y.bytes() == expected);
      }
    }
}

TEST_CASE("cpu conv: the workspace stays under 64 MiB however large the problem") {
  const Device device = Device::open("cpu");
  std::vector<ConvProblem> problems = {
      make(10'000'000, 3, 224, 224, 64, 7, 7),
      make(1, 1 << 20, 40, 40, 1 << 16, 7, 7),
      make(1, 1 << 20, 7, 7, 1 << 20, 7, 7),
      make(1 << 20, 1 << 16, 1, 1, 1 << 16, 1, 1),
      make(1, 1, 1 << 20, 1 << 20, 1, 1000, 1000),
      make(4, 1 << 12, 99, 99, 1 << 12, 3, 3, geometry({1, 1}, {1, 1}, {1, 1, 1, 1}, 1 << 12)),
      make(4, 100, 40, 40, 16, 34, 34),
      make(1, 1, 1, 1, 1, 1, 1),
  };
  for (ConvProblem& problem : problems)
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
      for (const char* algorithm : algorithms) {
        problem.dtype = dtype;
        if (!runs(algorithm, problem)) continue;
        const ConvOptions options{.algorithm = algorithm};
        const auto candidates = explain(device, problem, options);
        const auto own = std::find_if(candidates.begin(), candidates.end(),
                                      [&](const auto& one) { return one.algorithm == algorithm; });
        // im2col runs whatever the size; the others, which hold all filters, may find one too
        // large.
        const bool any_size = own->algorithm.starts_with("cpu.conv.im2col");
        if (own->support.reason == Reason::too_large && !any_size) continue;
        const ConvPlan plan(device, problem, options);
        DeviceInfo larger = device.info();
        for (const int threads : {1, 2, 64, 256, 4096}) {
          larger.units = threads;
          const ConvAlgorithm& chosen = plan.algorithm();
          const PlanResult planned = chosen.plan(plan.problem(), larger);
          const std::size_t bytes = planned.filter_bytes + planned.workspace_bytes;
          CAPTURE(to_string(problem), threads);
          CHECK(bytes > 0);
          CHECK(bytes <= std::size_t{64} << 20);
        }
      }
}

TEST_CASE("cpu: PLUMB_CPU_ISA lowers the instruction set, and names what it does not know") {
  const std::vector<Device> devices = devices_of_every_instruction_set();
  REQUIRE_FALSE(devices.empty());
  std::string best = devices.back().info().instruction_set;
  // Those that only some kernels have.
  for (const char* name : {"avx512_bf16", "amx"}) {
    const plumb_test::ForcedInstructionSet force(name);
    if (Device::open("cpu").info().instruction_set == name) best = name;
  }
  {
    const plumb_test::ForcedInstructionSet force("");
    CHECK(Device::open("cpu").info().instruction_set == best);
  }
  const plumb_test::ForcedInstructionSet force("avx1024");
  REQUIRE_THROWS_MATCHES(Device::open("cpu"), Error, MessageMatches(ContainsSubstring("avx1024")));
}
