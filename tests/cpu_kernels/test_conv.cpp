// The CPU's convolution algorithms against the oracle: every type, instruction set and order in
// memory.
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <vector>

#include "conv_case.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::cpu_conv;

TEST_CASE("cpu conv: integers, bit for bit, in every layout") {
  const Device device = Device::open("cpu");
  Random random(1);
  for (const ConvProblem& shape : shapes())
    for (const ConvProblem& problem : layouts(shape)) {
      Case data(problem);
      data.fill([&] { return random.integer(-3, 3); });
      check_outputs(data, device, Activation::none, exactly(data, Activation::none));
    }
}

TEST_CASE("cpu conv: every dtype on every instruction set") {
  const std::vector<Device> devices = devices_of_every_instruction_set();
  REQUIRE_FALSE(devices.empty());
  Random random(2);
  int turn = 0;
  for (ConvProblem problem : shapes())
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      if (is_sanitized && ++turn % 3 != 0) continue;
      problem.dtype = dtype;
      Case data(problem);
      data.fill([&] { return random.integer(-3, 3); });
      const auto exact = exactly(data, Activation::relu);
      for (const Device& device : devices) check_outputs(data, device, Activation::relu, exact);

      data.fill([&] { return random.normal(); });
      const auto bounded = [&, oracle = data.oracle()](const Numerics& numerics, std::size_t i,
                                                       double y) {
        return std::abs(y - oracle[i].y) <= conv_error_bound(numerics, problem, oracle[i], y);
      };
      for (const Device& device : devices) check_outputs(data, device, Activation::none, bounded);
    }
}

TEST_CASE("cpu conv: rows of every width, whole vectors and parts") {
  Random random(12);
  for (const Device& device : devices_of_every_instruction_set())
    for (std::int64_t q = 1; q <= 34; ++q)
      for (const std::int64_t padding : {0, 1})
        for (const DType dtype : {DType::f32, DType::f64}) {
          const Padding all{padding, padding, padding, padding};
          ConvProblem problem =
              make(2, 2, 6, q + 2 - 2 * padding, 7, 3, 3, geometry({1, 1}, {1, 1}, all));
          if (problem.w == 0) continue;
          problem.dtype = dtype;
          Case data(problem);
          data.fill([&] { return random.integer(-3, 3); });
          check_outputs(data, device, Activation::none, exactly(data, Activation::none));
        }
}

TEST_CASE("cpu conv: filters of one row or one column, at every pair of strides") {
  Random random(13);
  const std::vector<Device> devices = devices_of_every_instruction_set();
  REQUIRE_FALSE(devices.empty());
  // One channel a group, or images enough that each is one band: what is read where it lies in x.
  const std::vector<ConvProblem> channels = {make(2, 1, 9, 1, 4, 1, 1), make(2, 2, 9, 1, 4, 1, 1),
                                             make(64, 2, 9, 1, 3, 1, 1),
                                             make(2, 3, 9, 1, 6, 1, 1, {.groups = 3})};
  const std::vector<Pair> filters = {{1, 1}, {1, 3}, {1, 5}, {3, 1}, {5, 1}};
  int turn = 0;
  for (ConvProblem problem : channels)
    for (const Pair& filter : filters)
      for (const std::int64_t stride_h : {1, 2, 3})
        for (const std::int64_t stride_w : {1, 2})
          for (const std::int64_t width : {5, 16, 33})
            for (const DType dtype : {DType::f32, DType::f64}) {
              if (is_sanitized && ++turn % 11 != 0) continue;
              problem.r = filter.h, problem.s = filter.w, problem.w = width;
              problem.stride = {stride_h, stride_w}, problem.dtype = dtype;
              Case data(problem);
              data.fill([&] { return random.integer(-3, 3); });
              const auto exact = exactly(data, Activation::none);
              for (const Device& device : devices)
                check_outputs(data, device, Activation::none, exact);
            }
}

TEST_CASE("cpu conv: inputs with zero strides repeat") {
  const Device device = Device::open("cpu");
  ConvProblem problem = make(3, 4, 8, 8, 5, 3, 3);
  problem.x_strides = {0, 64, 8, 1};
  problem.w_strides = {0, 0, 3, 1};
  Random random(4);
  Case data(problem);
  data.fill([&] { return random.integer(-3, 3); });
  check_outputs(data, device, Activation::none, exactly(data, Activation::none));
}

TEST_CASE("cpu conv: an empty batch is done at once and writes nothing") {
  const Device device = Device::open("cpu");
  for (const char* algorithm : algorithms) {
    Case data(make(0, 3, 8, 8, 4, 3, 3));
    data.w.fill([] { return 1; });
    data.bias.fill([] { return 1; });
    data.run(device, forced(algorithm));
    CHECK(data.y.surroundings_untouched());
  }
}
