// Reproducible convolutions: which algorithms are left, what is refused and why, and that the bits
// depend on nothing but the problem. That they are those that are specified, validate() says.
#include <omp.h>

#include <catch2/catch_test_macros.hpp>

#include "support/devices.hpp"
#include "support/forced_instruction_set.hpp"
#include "support/host_tensor.hpp"

using namespace plumb;
using plumb_test::DeviceTensor;
using plumb_test::HostTensor;

namespace {

const char* const problems[] = {
    "mb3ic4ih17iw19oc6kh3ph1", "g2mb3ic4ih11iw12oc6kh3sh2ph1_padperiodic",
    "mb3ic2id5ih9iw8oc3kd3kh3kw3pd1ph1pw1", "mb3ic16ih8oc16kh1", "mb3ic1ih1iw200oc1kh1kw9pw4"};

ConvProblem problem_with(const char* text, Direction direction, DType dtype = DType::f32) {
  ConvProblem problem = parse_problem(text).problem;
  problem.direction = direction;
  problem.dtype = dtype;
  return check(problem);
}

HostTensor normal(DType dtype, const ConvOperand& part, std::uint32_t seed) {
  HostTensor tensor(dtype, part.extents, part.strides);
  plumb_test::Random random(seed);
  tensor.fill([&] { return random.normal(); });
  return tensor;
}

/// What a plan writes.
std::vector<double> result_of(const ConvPlan& plan, HostTensor& image, HostTensor& filters) {
  Queue queue(plan.device());
  const ConvOperand output = output_of(plan.problem());
  HostTensor y(plan.problem().dtype, output.extents, output.strides);
  const DeviceTensor x(queue, image), w(queue, filters), out(queue, y);
  plan.execute(queue, {.x = TensorView(x), .w = TensorView(w), .y = TensorView(out)});
  out.read_back(queue, y);
  return y.values();
}

bool has_fma(const Device& device) { return device.info().instruction_set != "sse2"; }

constexpr Direction directions[] = {Direction::forward, Direction::backward_data,
                                    Direction::backward_weights};

}  // namespace

TEST_CASE("reproducible: every device serves every direction and type") {
  for (const Device& device : plumb_test::all_devices()) {
    if (!has_fma(device)) continue;
    for (const char* text : problems)
      for (const Direction direction : directions)
        for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
          for (const bool accumulate : {false, true}) {
            CAPTURE(to_string(device.id()), text, to_string(direction), to_string(dtype),
                    accumulate);
            const ConvPlan plan(device, problem_with(text, direction, dtype),
                                {.accumulate = accumulate, .reproducible = true});
            CHECK(plan.algorithm().numerics.reproducible);
            // Sums in the type of the promise, however accurate another would be.
            CHECK((plan.algorithm().numerics.accumulator == Accumulator::fp64_fma) ==
                  (dtype == DType::f64));
          }
  }
}

TEST_CASE("reproducible: the same bits on every device, for any number of threads") {
  for (const char* text : problems)
    for (const Direction direction : directions) {
      const ConvProblem problem = problem_with(text, direction);
      HostTensor image = normal(problem.dtype, image_of(problem), 1);
      HostTensor filters = normal(problem.dtype, filters_of(problem), 2);
      std::vector<double> expected;
      for (const Device& device : plumb_test::all_devices()) {
        if (!has_fma(device)) continue;
        for (const int threads : {1, 2, 5}) {
          const int before = omp_get_max_threads();
          omp_set_num_threads(threads);
          const auto values =
              result_of(ConvPlan(device, problem, {.reproducible = true}), image, filters);
          omp_set_num_threads(before);
          CAPTURE(text, to_string(direction), to_string(device.id()), threads);
          if (expected.empty()) expected = values;
          CHECK(values == expected);
        }
      }
    }
}

TEST_CASE("reproducible: explain says who is left and why not the others") {
  const Device cpu = Device::open("cpu");
  if (!has_fma(cpu)) SKIP("no FMA");
  const ConvProblem problem = problem_with(problems[0], Direction::forward);
  bool any_left = false;
  for (const ConvCandidate& one : explain(cpu, problem, {.reproducible = true})) {
    CAPTURE(one.algorithm, one.support.sentence);
    any_left = any_left || one.support;
    if (one.support) CHECK(one.reproducible);
    if (one.algorithm == "cpu.conv.im2col.fp32")
      CHECK(one.support.reason == Reason::not_reproducible);
    // The specified bits of f32 are those of sums in fp32.
    if (one.algorithm == "cpu.conv.direct.fp64")
      CHECK(one.support.reason == Reason::not_reproducible);
  }
  CHECK(any_left);
  for (const ConvCandidate& one : explain(cpu, problem, {.math = Math::fp64, .reproducible = true}))
    if (one.algorithm == "cpu.conv.direct.fp64") CHECK(one.support);
}

TEST_CASE("reproducible: without FMA the CPU refuses, and says so") {
  const plumb_test::ForcedInstructionSet lowered("sse2");
  const Device cpu = Device::open("cpu");
  if (cpu.info().instruction_set != "sse2") SKIP("not x86-64");
  for (const Direction direction : directions) {
    CAPTURE(to_string(direction));
    bool refused = false;
    try {
      ConvPlan(cpu, problem_with(problems[0], direction), {.reproducible = true});
    } catch (const Error& e) {
      refused = e.code() == ErrorCode::unsupported &&
                std::string(e.what()).find("not_reproducible") != std::string::npos &&
                std::string(e.what()).find("multiply-adds") != std::string::npos;
    }
    CHECK(refused);
  }
}

TEST_CASE("invariant: an image has the same bits in every batch and place") {
  for (const Device& device : plumb_test::all_devices())
    for (const char* text : problems)
      for (const Direction direction : {Direction::forward, Direction::backward_data})
        for (const bool reproducible : {false, true}) {
          const ConvProblem three = problem_with(text, direction);
          ConvProblem one = parse_problem(text).problem;
          one.n = 1, one.direction = direction;
          one = check(one);
          HostTensor images = normal(three.dtype, image_of(three), 3);
          HostTensor filters = normal(three.dtype, filters_of(three), 4);
          int promised = 0;
          for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
            const ConvOptions options{.math = math_class(algorithm->numerics, three.dtype),
                                      .algorithm = std::string(algorithm->name),
                                      .reproducible = reproducible};
            const auto candidates = explain(device, three, options);
            const auto found = std::find_if(
                candidates.begin(), candidates.end(),
                [&](const ConvCandidate& other) { return other.algorithm == algorithm->name; });
            if (!found->support || !found->invariant) continue;
            ++promised;
            CAPTURE(to_string(device.id()), text, to_string(direction), algorithm->name,
                    reproducible);
            const auto together = result_of(ConvPlan(device, three, options), images, filters);
            const ConvPlan alone(device, one, options);
            const std::vector<double> values = images.values();
            const std::size_t in = values.size() / 3, out = together.size() / 3;
            for (std::size_t n = 0; n < 3; ++n) {
              const std::vector<double> image(
                  values.begin() + static_cast<std::ptrdiff_t>(n * in),
                  values.begin() + static_cast<std::ptrdiff_t>((n + 1) * in));
              HostTensor x =
                  HostTensor::of(one.dtype, image_of(one).extents, image, image_of(one).strides);
              const auto result = result_of(alone, x, filters);
              CHECK(std::equal(result.begin(), result.end(),
                               together.begin() + static_cast<std::ptrdiff_t>(n * out)));
            }
          }
          CAPTURE(to_string(device.id()), text);
          if (has_fma(device)) CHECK(promised > 0);
        }
}

TEST_CASE("invariant: no gradient by the weights promises it") {
  const Device cpu = Device::open("cpu");
  for (const ConvCandidate& one :
       explain(cpu, problem_with(problems[0], Direction::backward_weights)))
    CHECK_FALSE(one.invariant);
}
