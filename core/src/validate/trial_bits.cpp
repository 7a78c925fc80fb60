// The bits of reproducible runs, held against a plain loop.
#include <fmt/format.h>

#include <cmath>

#include "../parallel/parallel.hpp"
#include "in_double.hpp"
#include "trial.hpp"

namespace plumb {
namespace {

/// One value and no other, with the sign of a zero. Which NaN it is, is not promised.
bool same_bits(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

/// Sums of fewer products are not worth waking other threads for.
constexpr double products_for_one_thread = 1e5;

}  // namespace

ConvOptions Trial::reproducible_options(const ConvAlgorithm& algorithm) const {
  const bool fp64 = algorithm.numerics.accumulator == Accumulator::fp64_fma;
  return {.math = fp64 ? Math::fp64 : Math::fp32,
          .activation = activation_,
          .accumulate = accumulates(),
          .relu_mask = mask_.has_value(),
          .reproducible = true};
}

ConvTensors Trial::reproducible_tensors() const {
  const ConvOperand output = output_of(problem_);
  const TensorView unread(nullptr, problem_.dtype, output.extents, host, output.strides);
  ConvTensors tensors{.x = x(), .w = w(), .bias = bias(), .y = before_ ? before() : unread};
  if (mask_) tensors.mask = mask_->host();
  if (sums_dy_)
    tensors.db = db_before_ ? db_before_->host()
                            : TensorView(nullptr, problem_.dtype, {problem_.k}, host, {1});
  return tensors;
}

Support Trial::reproduces(const ConvAlgorithm& algorithm) {
  const ForReproducibleRuns asked(*this);
  return run_of(algorithm).support();
}

std::string Trial::run_reproducible(const ConvAlgorithm& algorithm, Queue& queue,
                                    TrialOutput& output) {
  const ForReproducibleRuns asked(*this);
  return run(algorithm, queue, output);
}

const std::vector<double>& Trial::expected_bits(const ConvOptions& options) {
  std::vector<double>& expected = bits_[options.math == Math::fp64 ? 1 : 0];
  if (!expected.empty()) return expected;
  ConvTensors tensors = reproducible_tensors();
  const InDouble image(tensors.x), filters(tensors.w);
  tensors.x = image.view(), tensors.w = filters.view();
  expected.resize(points_.size());
  const auto count = static_cast<std::int64_t>(points_.size());
  const double products = static_cast<double>(count) * static_cast<double>(problem_.terms());
  const int threads = products > products_for_one_thread ? available_threads() : 1;
  parallel_tasks(threads, count, 64, [&](std::int64_t i, int) {
    const auto [n, k, z, p, q] = points_[static_cast<std::size_t>(i)];
    expected[static_cast<std::size_t>(i)] =
        reproducible_at(problem_, options, tensors, n, k, z, p, q);
  });
  return expected;
}

std::string Trial::judge_bits(const ConvAlgorithm& algorithm, const TrialOutput& output) {
  const ConvOptions options = reproducible_options(algorithm);
  const std::vector<double>& expected = expected_bits(options);
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const auto [n, k, z, p, q] = points_[i];
    const double computed = load_element(output.y.host(), y_offset(points_[i]));
    if (!same_bits(computed, expected[i]))
      return fmt::format(
          "{} data: {}[{},{},{},{},{}] is {:a}; expected the bits of a plain loop, {:a}",
          to_string(kind_), output_of(problem_).name, n, k, z, p, q, computed, expected[i]);
  }
  if (!output.db) return {};
  const ConvTensors tensors = reproducible_tensors();
  for (std::int64_t k = 0; k < problem_.k; ++k) {
    const double computed = load_element(output.db->host(), k);
    const double bits = reproducible_bias_gradient_at(problem_, options, tensors, k);
    if (!same_bits(computed, bits))
      return fmt::format("{} data: db[{}] is {:a}; expected the bits of a plain loop, {:a}",
                         to_string(kind_), k, computed, bits);
  }
  return {};
}

}  // namespace plumb
