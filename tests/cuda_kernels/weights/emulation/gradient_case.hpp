// A gradient of weights that some emulated kernel computes, and how it is judged.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "cuda_kernels/fields/emulation/judged.hpp"
#include "cuda_kernels/weights/weights.hpp"
#include "plumb/plumb.hpp"
#include "plumb/validate.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::emulation {

inline int sum_bytes(plumb::DType dtype) { return dtype == plumb::DType::f64 ? 8 : 4; }

enum class Values { integers, special, normal };

struct WeightsOptions {
  bool accumulate = false;
  Values values = Values::integers;
};

/// What is tested: the kernel's launch, how many sums its parts have, and the chain that it states.
struct WeightsKernel {
  std::function<void(const plumb::cuda::WeightsCall&)> launch;
  std::int64_t sums = 0;
  double chain = 0;
};

class GradientCase {
 public:
  GradientCase(const plumb::ConvProblem& problem, const WeightsOptions& options, std::uint32_t seed)
      : problem_(problem),
        options_(options),
        random_(seed),
        x_(problem.dtype, problem.x_extents(), problem.x_strides),
        dy_(problem.dtype, problem.y_extents(), problem.y_strides),
        dw_(problem.dtype, problem.w_extents(), problem.w_strides) {
    for (HostTensor* tensor : {&x_, &dy_, &dw_})
      tensor->fill([&] {
        return options.values == Values::normal ? static_cast<double>(random_.normal())
                                                : random_.integer(-3, 3);
      });
    if (options.values == Values::special) {
      // Of gradients it is those at the border that meet the padding.
      put(dy_, random_, INFINITY, true), put(dy_, random_, INFINITY, false);
      put(x_, random_, INFINITY, true);
      if (random_.integer(0, 2) == 0) put(x_, random_, NAN, false);
    }
    oracle_ = plumb::conv_oracle(problem_, x_.view(), dy_.view(), {});
  }

  /// Runs the kernel, and returns what is wrong with dw. Empty where nothing is. Sums of small
  /// integers are exact; others lie within the bound of the chain that is stated.
  std::string run(const WeightsKernel& kernel) {
    const std::vector<double> dw = launch(kernel);
    // What is NaN is summed again, which would hide that a part read what nobody wrote.
    if (nan_in_parts_ && options_.values != Values::special) return "a part is NaN";
    return judge(dw);
  }

  std::vector<double> launch(const WeightsKernel& kernel) {
    HostTensor dw = dw_;
    const auto sums = static_cast<std::size_t>(kernel.sums);
    std::vector<double> parts(sums, NAN);
    kernel.launch({.x = x_.view().data(),
                   .dy = dy_.view().data(),
                   .dw = dw.view().data(),
                   .parts = parts.data(),
                   .accumulate = options_.accumulate});
    REQUIRE(dw.surroundings_untouched());
    chain_ = kernel.chain;
    const auto* const floats = reinterpret_cast<const float*>(parts.data());
    nan_in_parts_ = false;
    for (std::size_t i = 0; i < sums; ++i)
      nan_in_parts_ =
          nan_in_parts_ || std::isnan(sum_bytes(problem_.dtype) == 8 ? parts[i] : floats[i]);
    return dw.values();
  }

 private:
  std::string judge(const std::vector<double>& values) const {
    const std::vector<double> before = dw_.values();
    return first_wrong(values, [&](std::size_t i) -> Expected {
      const double expected = oracle_[i].y + (options_.accumulate ? before[i] : 0);
      if (options_.values != Values::normal) return {expected, 0};
      const double u = problem_.dtype == plumb::DType::f64   ? 0x1p-53
                       : problem_.dtype == plumb::DType::f32 ? 0x1p-24
                                                             : 0x1p-11;
      const double bound = (chain_ + 2) * (sum_bytes(problem_.dtype) == 8 ? 0x1p-53 : 0x1p-24) *
                               (oracle_[i].magnitude + std::abs(before[i])) +
                           u * std::abs(expected);
      return {expected, bound};
    });
  }

  plumb::ConvProblem problem_;
  WeightsOptions options_;
  Random random_;
  HostTensor x_, dy_, dw_;
  std::vector<plumb::OracleTerm> oracle_;
  double chain_ = 0;
  bool nan_in_parts_ = false;
};

}  // namespace plumb_test::emulation
