// A gradient that the emulated kernels of wide_weights/ compute, and how it is judged.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "cuda_kernels/fields/emulation/judged_conv.hpp"
#include "cuda_kernels/wide/emulation/placing.hpp"
#include "plumb/plumb.hpp"
#include "plumb/problem_text.hpp"
#include "plumb/validate.hpp"
#include "support/host_tensor.hpp"
#include "weights_run.hpp"

namespace plumb_test::emulation {

struct WideWeightsOptions {
  plumb::cuda::WideClass of = plumb::cuda::wide_class_fp16;
  Placing x = Placing::channels_last, dy = Placing::channels_last, dw = Placing::planes;
  plumb::cuda::WideWeightsChoice choice{.shape = mistaken_shape, .splits = 1, .folded_axes = 0};
  Data values = Data::integers;
  bool accumulate = false;
  bool shifted = false;  ///< x and dy begin one element behind an aligned address
  WeightsMistake mistake = WeightsMistake::none;
};

class WideWeightsEmulated {
 public:
  WideWeightsEmulated(const std::string& text, const WideWeightsOptions& options,
                      std::uint32_t seed = 1)
      : options_(options),
        problem_(problem_of(text, options)),
        plan_(problem_, options.of, options.choice),
        random_(seed),
        x_(problem_.dtype, problem_.x_extents(), problem_.x_strides),
        dy_(problem_.dtype, problem_.y_extents(), problem_.y_strides),
        dw_(problem_.dtype, problem_.w_extents(), problem_.w_strides) {
    for (HostTensor* tensor : {&x_, &dy_, &dw_})
      tensor->fill([&] { return draw(random_, options.values); });
    if (options.values == Data::infinite)
      put(x_, random_, INFINITY, false), put(dy_, random_, -INFINITY, true),
          put(dy_, random_, NAN, false);
    if (options.values == Data::large_products)
      for (HostTensor* tensor : {&x_, &dy_}) {
        constexpr double rounds_up = 0x1p64 * (1 - 0x1p-13);
        plumb::Dims first = tensor->extents();
        for (int i = 0; i < first.rank(); ++i) first[i] = 0;
        tensor->set(first, rounds_up);
      }
    if (options.values == Data::largest)
      for (const double sign : {1, -1}) put(x_, random_, sign * std::numeric_limits<float>::max());
  }

  const plumb::cuda::WideWeightsPlan& plan() const { return plan_; }

  /// Computes dw, and returns what is wrong with it; empty where nothing is. Sums of integers are
  /// exact, those of other values within `share` of what the arithmetic is allowed.
  std::string run(double share = 1) {
    HostTensor dw = dw_;
    std::vector<std::byte> x, dy;
    bool nan = false;
    try {
      nan = run_wide_weights({.plan = plan_,
                              .x = options_.shifted ? shifted_copy(x_, x) : x_.view().data(),
                              .dy = options_.shifted ? shifted_copy(dy_, dy) : dy_.view().data(),
                              .dw = dw.view().data(),
                              .accumulate = options_.accumulate,
                              .mistake = options_.mistake});
    } catch (const std::exception& error) {
      return error.what();
    }
    // What is NaN is summed anew, which would hide that a sum read what nobody wrote. Without an
    // image nothing is summed.
    if (nan && problem_.n > 0 &&
        (options_.values == Data::integers || options_.values == Data::normal))
      return "a sum of a split is NaN";
    if (!dw.surroundings_untouched()) return "wrote beside dw";
    return judge(dw.values(), share);
  }

 private:
  static plumb::ConvProblem problem_of(const std::string& text, const WideWeightsOptions& options) {
    plumb::ConvProblem problem = plumb::parse_problem(text).problem;
    problem.direction = plumb::Direction::backward_weights;
    problem.dtype = options.of.stored;
    problem.x_strides = strides_of(problem.x_extents(), options.x);
    problem.y_strides = strides_of(problem.y_extents(), options.dy);
    problem.w_strides = strides_of(problem.w_extents(), options.dw);
    return plumb::check(problem);
  }

  static double chain(const plumb::ConvProblem&) { return chain_; }

  std::string judge(const std::vector<double>& values, double share) const {
    const std::vector<double> before = dw_.values();
    std::vector<plumb::OracleTerm> terms =
        plumb::conv_oracle(problem_, x_.view(), dy_.view(), plumb::ConstTensorView());
    chain_ = plumb::cuda::wide_weights_chain(plan_);
    const plumb::Numerics numerics{
        .operand = plumb::cuda::weights_in_registers(options_.of) ? plumb::Operand::tf32_rounded
                   : options_.of.products == 3                    ? plumb::Operand::fp16
                   : options_.of.scales()                         ? plumb::Operand::fp16_scaled
                   : options_.of.stored == plumb::DType::f16      ? plumb::Operand::fp16
                                                                  : plumb::Operand::bf16,
        .accumulator = plumb::Accumulator::tensor_core_fp32,
        .products = options_.of.products,
        .term_multiple = plumb::cuda::wide_weights_block(options_.of),
        .chain = chain};
    const bool exact = has_exact_sums(options_.values);
    return first_wrong(values, [&](std::size_t i) -> Expected {
      if (options_.accumulate) terms[i].add(before[i]);
      const double expected = exact ? stored_as(problem_.dtype, terms[i].y) : terms[i].y;
      const double bound =
          exact ? 0 : share * plumb::conv_error_bound(numerics, problem_, terms[i], values[i]);
      return {expected, bound};
    });
  }

  static inline double chain_ = 0;
  WideWeightsOptions options_;
  plumb::ConvProblem problem_;
  plumb::cuda::WideWeightsPlan plan_;
  Random random_;
  HostTensor x_, dy_, dw_;
};

}  // namespace plumb_test::emulation
