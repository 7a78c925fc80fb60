// A convolution of fields that an emulated kernel runs, and how its result is judged.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "cuda_kernels/fields/fields.hpp"
#include "plumb/plumb.hpp"
#include "plumb/validate.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::emulation {

using plumb::cuda::FieldChoice;
using plumb::cuda::FieldKernel;
using plumb::cuda::FieldPlan;

inline constexpr plumb::cuda::FieldMachine machine{132, 18.8};  // an H200

inline std::optional<FieldPlan> plan(const plumb::ConvProblem& problem, const FieldChoice& choice) {
  return plumb::cuda::plan_fields(plumb::cuda::field_problem(problem),
                                  static_cast<int>(plumb::size_in_bytes(problem.dtype)), machine,
                                  choice);
}

/// What is done besides summing products, and which values they are of.
struct FieldOptions {
  bool bias = false, relu = false, accumulate = false, vectors = true;
  /// Infinities and NaN in x and w: a tap in a padding of zeros is no term, whatever its weight.
  bool special = false;
};

class FieldCase {
 public:
  FieldCase(const plumb::ConvProblem& problem, const FieldOptions& options, std::uint32_t seed)
      : problem_(plumb::check(problem)),
        options_(options),
        random_(seed),
        x_(problem_.dtype, problem_.x_extents(), problem_.x_strides),
        w_(problem_.dtype, problem_.w_extents(), problem_.w_strides),
        bias_(problem_.dtype, {problem_.k}),
        y_(problem_.dtype, problem_.y_extents(), problem_.y_strides) {
    for (HostTensor* tensor : {&x_, &w_, &bias_, &y_})
      tensor->fill([&] { return random_.integer(-3, 3); });
    if (options.special) {
      put(x_, NAN), put(x_, INFINITY);
      // What the padding meets first are the taps at the corners.
      plumb::Dims corner = w_.extents();
      const bool last = random_.integer(0, 1) > 0;
      for (int i = 0; i < corner.rank(); ++i) corner[i] = i > 1 && last ? corner[i] - 1 : 0;
      w_.set(corner, INFINITY);
    }
    expected_ = expected();
  }

  /// Runs the plan, and returns what is wrong with y: sums of small integers are exact. Empty where
  /// nothing is.
  std::string run(const FieldPlan& plan) {
    HostTensor y = y_;
    const plumb::cuda::FieldCall call{.x = x_.view().data(),
                                      .w = w_.view().data(),
                                      .bias = options_.bias ? bias_.view().data() : nullptr,
                                      .y = y.view().data(),
                                      .relu = options_.relu,
                                      .accumulate = options_.accumulate,
                                      .vectors = options_.vectors};
    try {
      if (problem_.dtype == plumb::DType::f32)
        plumb::cuda::launch_fields_f32(plan, call, nullptr);
      else
        plumb::cuda::launch_fields_f64(plan, call, nullptr);
    } catch (const std::exception& error) {
      return error.what();
    }
    if (!y.surroundings_untouched()) return "wrote beside y";
    const std::vector<double> values = y.values();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != expected_[i] && !(std::isnan(values[i]) && std::isnan(expected_[i])))
        return "element " + std::to_string(i) + " of " + std::to_string(values.size()) + " is " +
               std::to_string(values[i]) + ", expected " + std::to_string(expected_[i]);
    return {};
  }

 private:
  void put(HostTensor& tensor, double value) {
    plumb::Dims index = tensor.extents();
    for (int i = 0; i < index.rank(); ++i)
      index[i] =
          static_cast<std::int64_t>(random_.integer(0, static_cast<int>(tensor.extents()[i]) - 1));
    tensor.set(index, value);
  }

  std::vector<double> expected() {
    const std::vector<double> before = y_.values();
    std::vector<double> result;
    for (const plumb::OracleTerm& term :
         plumb::conv_oracle(problem_, x_.view(), w_.view(),
                            options_.bias ? bias_.view() : plumb::ConstTensorView()))
      result.push_back(term.y);
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (options_.accumulate) result[i] += before[i];
      if (options_.relu && result[i] < 0) result[i] = 0;
    }
    return result;
  }

  plumb::ConvProblem problem_;
  FieldOptions options_;
  Random random_;
  HostTensor x_, w_, bias_, y_;
  std::vector<double> expected_;
};

}  // namespace plumb_test::emulation
