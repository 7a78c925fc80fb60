// One small convolution, held against the oracle.
#include "device_check.hpp"

#include <fmt/format.h>

#include <vector>

#include "plumb/plumb.hpp"

namespace plumb::app {
namespace {

ConvProblem small_problem() {
  ConvProblem problem;
  problem.n = 2, problem.c = 3, problem.h = 8, problem.w = 9;
  problem.k = 4, problem.r = 3, problem.s = 3;
  return check(problem);
}

/// The first of the device's algorithms that takes the problem, whatever PLUMB_CONV_ALGORITHM says.
std::string algorithm_of(const Device& device, const ConvProblem& problem) {
  for (const ConvAlgorithm* algorithm : conv_algorithms(device))
    if (!algorithm->forced_only && !algorithm->provider &&
        algorithm->plan(problem, device.info()).support)
      return std::string(algorithm->name);
  return {};
}

/// Throws what the device reports.
Support compare_with_oracle(const Device& device) {
  const ConvProblem problem = small_problem();
  std::vector<float> x(static_cast<std::size_t>(element_count(problem.x_extents())));
  std::vector<float> w(static_cast<std::size_t>(element_count(problem.w_extents())));
  std::vector<float> y(static_cast<std::size_t>(element_count(problem.y_extents())));
  int next = 0;
  for (auto* values : {&x, &w})
    for (float& value : *values) value = static_cast<float>(next++ % 7 - 3);
  const ConvTensors tensors{.x = ConstTensorView(x.data(), problem.x_extents()),
                            .w = ConstTensorView(w.data(), problem.w_extents()),
                            .bias = {},
                            .y = TensorView(y.data(), problem.y_extents())};
  conv_host(device, tensors, {}, {.algorithm = algorithm_of(device, problem)});
  const std::vector<OracleTerm> expected = conv_oracle(problem, tensors.x, tensors.w);
  for (std::size_t i = 0; i < y.size(); ++i)
    if (static_cast<double>(y[i]) != expected[i].y)
      return {Reason::device_error,
              fmt::format("a small convolution is wrong: output {} is {}, expected {}", i, y[i],
                          expected[i].y)};
  return {};
}

}  // namespace

Support try_device(const std::string& spec) {
  try {
    return compare_with_oracle(Device::open(spec));
  } catch (const Error& e) {
    const Reason otherwise =
        e.code() == ErrorCode::out_of_memory ? Reason::out_of_memory : Reason::device_error;
    return {e.reason() == Reason::none ? otherwise : e.reason(), e.what()};
  }
}

}  // namespace plumb::app
