// A gradient that the emulated kernels of few_weights/ compute, and how it is judged.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "cuda_kernels/few_weights/few_weights.hpp"
#include "cuda_kernels/fields/emulation/judged.hpp"
#include "plumb/plumb.hpp"
#include "plumb/validate.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::emulation {

using plumb::cuda::FewWeightsFault;
using plumb::cuda::FewWeightsPlan;

/// Of `ranges` and `apart`, magnitudes lie further apart than halves hold; of `far_apart` further
/// than two ranges do; `apart` has one large gradient, at the end of a filter. Of `huge` and `tiny`
/// ones sums are still finite, and products normal numbers; of `subnormal` ones x is not, and of
/// `lost` ones nothing is left of products.
enum class Values {
  integers,
  normal,
  special,
  ranges,
  apart,
  far_apart,
  huge,
  tiny,
  subnormal,
  lost
};

struct FewWeightsOptions {
  Values values = Values::integers;
  bool accumulate = false;
  FewWeightsFault fault = FewWeightsFault::none;
};

/// Launches the kernels of a plan.
using RunWeights = std::function<void(const plumb::cuda::WeightsCall&, FewWeightsFault)>;

class FewWeightsCase {
 public:
  FewWeightsCase(const plumb::ConvProblem& problem, const FewWeightsOptions& options,
                 std::uint32_t seed)
      : problem_(problem),
        options_(options),
        random_(seed),
        x_(problem.dtype, problem.x_extents(), problem.x_strides),
        dy_(problem.dtype, problem.y_extents(), problem.y_strides),
        dw_(problem.dtype, problem.w_extents(), problem.w_strides) {
    x_.fill([&] { return draw(100); });
    dy_.fill([&] { return draw(10); });
    dw_.fill([&] { return static_cast<double>(random_.integer(-3, 3)); });
    if (options.values == Values::apart) put(dy_, random_, 1, true);
    if (options.values == Values::special) {
      // Of gradients it is those at the border that meet the padding.
      put(dy_, random_, INFINITY, true), put(dy_, random_, INFINITY, false),
          put(x_, random_, INFINITY, true);
      if (random_.integer(0, 2) == 0) put(x_, random_, NAN, false);
    }
    oracle_ = plumb::conv_oracle(problem_, x_.view(), dy_.view(), {});
  }

  /// Runs the plan, and returns what is wrong with dw. Empty where nothing is. Sums of small
  /// integers are exact; others lie within the bound of the chain that the plan states.
  std::string run(const FewWeightsPlan& plan, const RunWeights& kernels) {
    const std::vector<double> dw = launch(plan, kernels);
    // What is NaN is summed again, which would hide that a part read what nobody wrote.
    if (nan_in_parts_ && options_.values != Values::special && options_.values != Values::far_apart)
      return "a part is NaN";
    return judge(plan, dw);
  }

  std::vector<double> launch(const FewWeightsPlan& plan, const RunWeights& kernels) {
    HostTensor dw = dw_;
    std::vector<float> parts(plan.sums(), NAN);
    kernels({.x = x_.view().data(),
             .dy = dy_.view().data(),
             .dw = dw.view().data(),
             .parts = parts.data(),
             .accumulate = options_.accumulate},
            options_.fault);
    REQUIRE(dw.surroundings_untouched());
    nan_in_parts_ = std::ranges::any_of(parts, [](float part) { return std::isnan(part); });
    return dw.values();
  }
  bool nan_in_parts() const { return nan_in_parts_; }

 private:
  double draw(int exponent) {
    switch (options_.values) {
      case Values::integers:
      case Values::special: return random_.integer(-3, 3);
      case Values::normal: return random_.normal();
      case Values::ranges:
        return std::ldexp(random_.normal(), random_.integer(0, 3) == 0 ? -40 : 0);
      case Values::apart: return std::ldexp(random_.normal(), -40);
      case Values::far_apart:
        return std::ldexp(random_.normal(), -20 * static_cast<int>(random_.integer(0, 5)));
      case Values::huge: return std::ldexp(random_.normal(), exponent);
      case Values::tiny: return std::ldexp(random_.normal(), -exponent);
      case Values::subnormal: return std::ldexp(random_.normal(), exponent > 50 ? -138 : 60);
      case Values::lost: return std::ldexp(random_.normal(), -138);
    }
    return 0;
  }
  static double chain(const plumb::ConvProblem&) { return chain_; }

  std::string judge(const FewWeightsPlan& plan, const std::vector<double>& values) {
    using plumb::Operand;
    chain_ = few_weights_chain(plan.sizes, plan.cut, plan.of);
    const plumb::Numerics numerics{.operand = plan.of.splits()   ? Operand::fp16
                                              : plan.of.scales() ? Operand::fp16_scaled
                                              : plan.of.stored == plumb::DType::f16 ? Operand::fp16
                                                                                    : Operand::bf16,
                                   .accumulator = plumb::Accumulator::tensor_core_fp32,
                                   .products = plan.of.products,
                                   .term_multiple = plumb::cuda::few_weights_step,
                                   .chain = chain};
    const bool exact = options_.values == Values::integers || options_.values == Values::special;
    const std::vector<double> before = dw_.values();
    return first_wrong(values, [&](std::size_t i) -> Expected {
      plumb::OracleTerm of = oracle_[i];
      if (options_.accumulate) of.add(before[i]);
      return {exact ? stored_as(problem_.dtype, of.y) : of.y,
              exact ? 0 : plumb::conv_error_bound(numerics, problem_, of, values[i])};
    });
  }

  static inline double chain_ = 0;
  plumb::ConvProblem problem_;
  FewWeightsOptions options_;
  Random random_;
  HostTensor x_, dy_, dw_;
  std::vector<plumb::OracleTerm> oracle_;
  bool nan_in_parts_ = false;
};

}  // namespace plumb_test::emulation
