// Pooled convolutions: pooled by the kernel or behind it, the result is that of the two operators.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "plumb/backend.hpp"
#include "support/devices.hpp"
#include "support/host_tensor.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using plumb_test::DeviceTensor;
using plumb_test::HostTensor;

namespace {

/// Odd rows and columns of outputs, padding, groups and a stride.
const char* const odd_problem = "g2mb3ic4ih15iw12oc6kh3kw2sh1sw1ph1pw0_poolmax2x2";
const char* const even_problem = "mb2ic9ih9iw11oc5oh10ow10kh3ph1pw0_poolmax2x2";

ConvProblem problem_of(const char* text) { return parse_problem(text).problem; }

/// What of a fused pooling may go wrong.
enum class PoolFault {
  none,
  lost_nan,      ///< a comparison that a NaN never wins
  first_only,    ///< the first of the window instead of the largest
  steps_of_one,  ///< windows that overlap
  odd_row_kept,  ///< a last window that hangs over
  last_unwritten,
  bias_after,  ///< the bias is added twice: before and after the maximum
  relu_lost,
};

/// A fused kernel as it might be written first, in fp32.
template <PoolFault fault>
void convolve_and_pool(const ConvLaunch& launch) {
  const ConvProblem& problem = launch.problem;
  const auto* x = static_cast<const float*>(launch.x);
  const auto* w = static_cast<const float*>(launch.w);
  const auto* bias = static_cast<const float*>(launch.bias);
  const auto convolved = [&](std::int64_t n, std::int64_t k, std::int64_t p, std::int64_t q) {
    float sum = 0;
    const std::int64_t channels = problem.c / problem.groups;
    const std::int64_t first = k / (problem.k / problem.groups) * channels;
    const Strides &xs = problem.x_strides, &ws = problem.w_strides;
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t r = 0; r < problem.r; ++r)
        for (std::int64_t s = 0; s < problem.s; ++s) {
          const std::int64_t h =
              p * problem.stride.h + r * problem.dilation.h - problem.padding.top;
          const std::int64_t v =
              q * problem.stride.w + s * problem.dilation.w - problem.padding.left;
          if (h < 0 || h >= problem.h || v < 0 || v >= problem.w) continue;
          sum = std::fma(x[n * xs[0] + (first + c) * xs[1] + h * xs[2] + v * xs[3]],
                         w[k * ws[0] + c * ws[1] + r * ws[2] + s * ws[3]], sum);
        }
    if (bias) sum += bias[k];
    const bool relu = launch.activation == Activation::relu && fault != PoolFault::relu_lost;
    return relu && sum < 0 ? 0 : sum;
  };
  const auto larger = [](float a, float b) {
    if (fault == PoolFault::first_only) return a;
    if (fault == PoolFault::lost_nan) return b > a || std::isnan(a) ? b : a;
    return std::isnan(a) || a >= b ? a : b;
  };
  constexpr std::int64_t step = fault == PoolFault::steps_of_one ? 1 : 2;
  const Extents y = problem.y_extents();
  const std::int64_t rows = y[2] + (fault == PoolFault::odd_row_kept ? problem.p() % 2 : 0);
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t k = 0; k < y[1]; ++k)
      for (std::int64_t p = 0; p < rows; ++p)
        for (std::int64_t q = 0; q < y[3]; ++q) {
          if (fault == PoolFault::last_unwritten && p == y[2] - 1 && q == y[3] - 1) continue;
          float most = convolved(n, k, step * p, step * q);
          for (const auto& [a, b] : {std::pair{0, 1}, {1, 0}, {1, 1}})
            most = larger(most, convolved(n, k, step * p + a, step * q + b));
          if (fault == PoolFault::bias_after && bias) most += bias[k];
          const Strides& ys = problem.y_strides;
          static_cast<float*>(launch.y)[n * ys[0] + k * ys[1] + p * ys[2] + q * ys[3]] = most;
        }
}

constexpr ConvAlgorithm fused(decltype(ConvAlgorithm::launch) launch) {
  return {
      .name = "cpu.conv.fused.fp32",
      .fuses_pool = true,
      .plan = [](const ConvProblem& problem, const DeviceInfo&) -> PlanResult {
        if (problem.dtype == DType::f32 && problem.pool == Pool::max_2x2)
          return {.estimate_seconds = 1e-6};
        return {{Reason::dtype, "is for pooled f32"}};
      },
      .launch = launch,
  };
}

bool is_caught_by(const ConvAlgorithm& algorithm, Tier tier) {
  const Device cpu = Device::open("cpu");
  const ConvAlgorithm* const list[] = {&algorithm};
  bool caught = false;
  for (const char* text : {odd_problem, even_problem})
    for (const Activation activation : {Activation::none, Activation::relu}) {
      ValidationCase test = validation_case("", problem_of(text), Placement::strided);
      test.bias = true;
      test.activation = activation;
      for (const ValidationRecord& record :
           validate(cpu, list, test, {.tiers = {tier}, .guard = GuardPages::none})) {
        REQUIRE(record.verdict != Verdict::unsupported);
        caught = caught || record.verdict == Verdict::fail;
      }
    }
  return caught;
}

/// y of a convolution with bias and ReLU and a pooling behind it, as two operators.
HostTensor in_two_steps(Queue& queue, const ConvProblem& problem, const ConvTensors& tensors,
                        std::string algorithm) {
  const ConvProblem convolution = problem.unpooled();
  HostTensor between(problem.dtype, convolution.y_extents()), y(problem.dtype, problem.y_extents());
  const DeviceTensor device_between(queue, between), device_y(queue, y);
  ConvTensors first = tensors;
  first.y = device_between;
  ConvPlan(queue.device(), convolution,
           {.math = Math::fp16,
            .algorithm = std::move(algorithm),
            .bias = true,
            .activation = Activation::relu})
      .execute(queue, first);
  pool(queue, device_between, device_y, {.window = {2, 2}, .stride = {2, 2}});
  device_y.read_back(queue, y);
  return y;
}

}  // namespace

TEST_CASE("a pooled convolution is a convolution and a pooling, to the bit") {
  plumb_test::Random random(3);
  int compared = 0;
  for (const Device& device : plumb_test::all_devices())
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
      ConvProblem problem = problem_of(odd_problem);
      problem.dtype = dtype;
      const auto filled = [&](const Extents& extents) {
        HostTensor tensor(dtype, extents);
        tensor.fill([&] { return random.normal(); });
        return tensor;
      };
      HostTensor x = filled(problem.x_extents()), w = filled(problem.w_extents()),
                 bias = filled({problem.k}), y(dtype, problem.y_extents());
      x.set({1, 2, 7, 5}, std::numeric_limits<double>::quiet_NaN());
      Queue queue(device);
      const DeviceTensor device_x(queue, x), device_w(queue, w), device_bias(queue, bias),
          device_y(queue, y);
      const ConvTensors tensors{.x = device_x, .w = device_w, .bias = device_bias, .y = device_y};
      ConvOptions options{.math = Math::fp16, .bias = true, .activation = Activation::relu};
      for (const ConvCandidate& candidate : explain(device, problem, options)) {
        if (!candidate.support || !candidate.deterministic) continue;
        // Fused or not: kernels that pool may sum in another order than they do without.
        if (candidate.pool_fused) continue;
        CAPTURE(candidate.algorithm, to_string(dtype));
        options.algorithm = candidate.algorithm;
        ConvPlan(device, problem, options).execute(queue, tensors);
        device_y.read_back(queue, y);
        const HostTensor expected = in_two_steps(queue, problem, tensors, options.algorithm);
        CHECK((y.bytes() == expected.bytes()));
        CHECK(y.surroundings_untouched());
        ++compared;
      }
    }
  REQUIRE(compared > 0);
}

TEST_CASE("a batch that is pooled in slices") {
  // Images of 1.57 MB before they are pooled: slices of 21 on a CPU, and a last one of 5.
  const ConvProblem problem = problem_of("mb47ic1ih102iw100oc40kh3_poolmax2x2");
  const Device cpu = Device::open("cpu");
  const ConvPlan plan(cpu, problem);
  HostTensor x(DType::f32, problem.x_extents()), w(DType::f32, problem.w_extents()),
      y(DType::f32, problem.y_extents());
  plumb_test::Random random(1);
  for (HostTensor* tensor : {&x, &w}) tensor->fill([&] { return random.integer(-3, 3); });
  Queue queue(cpu);
  plan.execute(queue, {.x = x.view(), .w = w.view(), .y = y.view()});
  REQUIRE(y.surroundings_untouched());
  std::size_t at = 0;
  for (const OracleTerm& term : conv_oracle(problem, x.view(), w.view())) {
    const std::int64_t i = static_cast<std::int64_t>(at++);
    REQUIRE(load_element(y.view(), i) == term.y);
  }
  for (const ConvCandidate& candidate : explain(cpu, problem, {.math = Math::fp16}))
    if (candidate.support && !candidate.pool_fused)
      CHECK(candidate.workspace_bytes < std::size_t{64} << 20);
}

TEST_CASE("pooling that no kernel fuses is counted in the estimate and in the workspace") {
  const ConvProblem problem = problem_of("mb8ic3ih34oc16kh3_poolmax2x2");
  for (const Device& device : plumb_test::all_devices()) {
    const auto pooled = explain(device, problem), alone = explain(device, problem.unpooled());
    REQUIRE(pooled.size() == alone.size());
    for (std::size_t i = 0; i < pooled.size(); ++i) {
      CAPTURE(pooled[i].algorithm);
      // Whoever can convolve can convolve and pool.
      CHECK((!alone[i].support || pooled[i].support));
      if (!pooled[i].support || pooled[i].pool_fused) continue;
      CHECK(pooled[i].workspace_bytes >= alone[i].workspace_bytes + 8 * 16 * 32 * 32 * 4);
      CHECK(pooled[i].estimate_seconds > alone[i].estimate_seconds);
    }
    for (const ConvCandidate& candidate :
         explain(device, problem, {.workspace_limit_bytes = 8 * 16 * 32 * 32 * 4 - 1}))
      if (candidate.support) CHECK(candidate.pool_fused);
  }
}

TEST_CASE(
    "a pooled problem is asked of the kernel first, and of the convolution where it refuses") {
  static constexpr ConvAlgorithm with = fused(without_plan<convolve_and_pool<PoolFault::none>>);
  const Device cpu = Device::open("cpu");
  const DeviceInfo& info = cpu.info();
  const ConvProblem problem = problem_of(even_problem);
  const ConvCandidate fusing = ask(with, problem, info);
  REQUIRE(fusing.support);
  REQUIRE(fusing.pool_fused);
  REQUIRE(fusing.workspace_bytes == 0);
  REQUIRE(fusing.estimate_seconds == 1e-6);
  REQUIRE_FALSE(ask(with, problem.unpooled(), info).support);
  // One that convolves alone, and says that it pools: it does not support what pools.
  ConvAlgorithm alone = with;
  alone.plan = [](const ConvProblem& p, const DeviceInfo&) -> PlanResult {
    if (p.pool != Pool::none) return {{Reason::dtype, "not this one"}};
    return {.estimate_seconds = 1e-6};
  };
  const ConvCandidate behind = ask(alone, problem, info);
  REQUIRE(behind.support);
  REQUIRE_FALSE(behind.pool_fused);
  REQUIRE(behind.workspace_bytes == 2 * 5 * 10 * 10 * 4 + 96);  // to a multiple of 256
}

TEST_CASE("validation catches what a fused pooling gets wrong") {
  const auto require_caught = []<PoolFault fault>(Tier tier) {
    static constexpr ConvAlgorithm algorithm = fused(without_plan<convolve_and_pool<fault>>);
    CAPTURE(static_cast<int>(fault));
    CHECK(is_caught_by(algorithm, tier));
  };
  static constexpr ConvAlgorithm sound = fused(without_plan<convolve_and_pool<PoolFault::none>>);
  for (const Tier tier : all_tiers) CHECK_FALSE(is_caught_by(sound, tier));
  require_caught.operator()<PoolFault::lost_nan>(Tier::bounded);
  require_caught.operator()<PoolFault::first_only>(Tier::exact);
  require_caught.operator()<PoolFault::steps_of_one>(Tier::exact);
  require_caught.operator()<PoolFault::odd_row_kept>(Tier::exact);
  require_caught.operator()<PoolFault::last_unwritten>(Tier::exact);
  require_caught.operator()<PoolFault::bias_after>(Tier::exact);
  require_caught.operator()<PoolFault::relu_lost>(Tier::exact);
}

TEST_CASE("attestation tells the arithmetic of a pooled convolution") {
  static constexpr ConvAlgorithm honest = fused(without_plan<convolve_and_pool<PoolFault::none>>);
  ConvAlgorithm boasting = honest;
  boasting.numerics = {Operand::fp64, Accumulator::fp64_fma};
  const Device cpu = Device::open("cpu");
  // Also with one channel, where the taps of a probe must keep out of each other's way.
  for (const char* text : {even_problem, "mb1ic1ih9oc1kh3_poolmax2x2",
                           "mb1ic1ih16oc2kh7_poolmax2x2", "mb1ic1ih16oc2kh5sh2dh1_poolmax2x2"}) {
    CAPTURE(text);
    for (const auto& [algorithm, verdict] :
         {std::pair{&honest, Verdict::pass}, {&std::as_const(boasting), Verdict::fail}}) {
      const auto records =
          validate(cpu, {&algorithm, 1}, validation_case("", problem_of(text), Placement::nchw),
                   {.tiers = {Tier::attested}});
      REQUIRE(records.size() == 1);
      CHECK(records[0].arithmetic == Arithmetic::fp32);
      CHECK(records[0].verdict == verdict);
    }
  }
}

TEST_CASE("conv() pools where its geometry asks for pooling") {
  for (const Device& device : plumb_test::all_devices()) {
    Queue queue(device);
    HostTensor x = HostTensor::of(DType::f32, {1, 1, 2, 5}, {1, 5, 3, 9, 0, 7, 2, 8, 4, 100}),
               w = HostTensor::of(DType::f32, {1, 1, 1, 1}, {2}), y(DType::f32, {1, 1, 1, 2});
    const DeviceTensor device_x(queue, x), device_w(queue, w), device_y(queue, y);
    const ConvTensors tensors{.x = device_x, .w = device_w, .y = device_y};
    conv(queue, tensors, {.pool = Pool::max_2x2});
    device_y.read_back(queue, y);
    REQUIRE(y.values() == std::vector<double>{14, 18});
    REQUIRE_THROWS_MATCHES(conv(queue, tensors), Error,
                           MessageMatches(ContainsSubstring("expected [1, 1, 2, 5]")));
  }
}
