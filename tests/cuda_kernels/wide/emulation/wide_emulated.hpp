// A convolution that the emulated wide kernel makes, and how its outputs are judged.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cuda_kernels/fields/emulation/judged.hpp"
#include "placing.hpp"
#include "plumb/plumb.hpp"
#include "plumb/problem_text.hpp"
#include "plumb/validate.hpp"
#include "support/absent_device.hpp"
#include "support/host_tensor.hpp"
#include "wide_run.hpp"

namespace plumb_test::emulation {

struct WideOptions {
  plumb::cuda::WideClass of = plumb::cuda::wide_class_fp16;
  Placing x = Placing::channels_last, y = Placing::channels_last;
  plumb::cuda::WideChoice choice{.shape = 3, .splits = 1};
  int folded_axes = 0;  ///< the choice's
  int across = 0;       ///< the choice's
  Data data = Data::integers;
  bool bias = false, relu = false, accumulate = false;
  bool shifted = false;    ///< x begins one element behind an aligned address
  int images_at_once = 0;  ///< that are repacked; 0: as planned
  EmulatedFault fault = EmulatedFault::none;
};

class WideEmulated {
 public:
  WideEmulated(const std::string& text, const WideOptions& options, std::uint32_t seed = 1)
      : options_(options),
        problem_(problem_of(text, options)),
        plan_(problem_, options.of, hopper(),
              {options.choice.shape, options.choice.splits, options.folded_axes, options.across}),
        random_(seed),
        x_(problem_.dtype, problem_.x_extents(), problem_.x_strides),
        w_(problem_.dtype, problem_.w_extents(), problem_.w_strides),
        bias_(problem_.dtype, {problem_.k}),
        y_(problem_.dtype, problem_.y_extents(), problem_.y_strides) {
    for (HostTensor* tensor : {&x_, &w_, &bias_})
      tensor->fill([&] { return draw(random_, options.data); });
    if (options.accumulate) y_.fill([&] { return draw(random_, options.data); });
    if (options.data == Data::infinite)
      put(x_, random_, INFINITY), put(x_, random_, NAN), put(w_, random_, -INFINITY);
    if (options.data == Data::large_products) {
      constexpr double rounds_up = 0x1p64 * (1 - 0x1p-13);
      for (HostTensor* tensor : {&x_, &w_}) {
        plumb::Dims first = tensor->extents();
        for (int i = 0; i < first.rank(); ++i) first[i] = 0;
        tensor->set(first, rounds_up);
      }
    }
    if (options.data == Data::largest)
      for (const double sign : {1, -1}) put(x_, random_, sign * std::numeric_limits<float>::max());
    if (options.images_at_once > 0) plan_.input.images = options.images_at_once;
  }

  const plumb::ConvProblem& problem() const { return problem_; }
  const plumb::cuda::WidePlan& plan() const { return plan_; }
  const HostTensor& x() const { return x_; }
  const HostTensor& w() const { return w_; }

  WideRun run_of(void* y, const void* x) const {
    return {.problem = problem_,
            .plan = plan_,
            .x = x,
            .w = w_.view().data(),
            .bias = options_.bias ? bias_.view().data() : nullptr,
            .y = y,
            .relu = options_.relu,
            .accumulate = options_.accumulate,
            .fault = options_.fault};
  }

  /// Convolves, and returns what is wrong with y; empty where nothing is. Sums of integers are
  /// exact, those of other data within `share` of what the arithmetic is allowed.
  std::string run(double share = 1) {
    HostTensor y = y_;
    std::vector<std::byte> shifted;
    const void* x = x_.view().data();
    if (options_.shifted) x = shift(shifted);
    try {
      run_wide(run_of(y.view().data(), x));
    } catch (const std::exception& error) {
      return error.what();
    }
    if (!y.surroundings_untouched()) return "wrote beside y";
    return judge(y.values(), share);
  }

 private:
  static plumb::ConvProblem problem_of(const std::string& text, const WideOptions& options) {
    plumb::ConvProblem problem = plumb::parse_problem(text).problem;
    problem.dtype = options.of.stored;
    problem.x_strides = strides_of(problem.x_extents(), options.x);
    problem.y_strides = strides_of(problem.y_extents(), options.y);
    return plumb::check(problem);
  }
  /// Copies x to one element behind an aligned address.
  const void* shift(std::vector<std::byte>& to) const {
    const std::size_t element = plumb::size_in_bytes(problem_.dtype);
    to.resize(x_.bytes().size() + 64);
    std::byte* begin = to.data();
    while (reinterpret_cast<std::uintptr_t>(begin) % 16 != 0) ++begin;
    const auto* const from = static_cast<const std::byte*>(x_.view().data());
    const std::size_t elements = static_cast<std::size_t>(element_count(problem_.x_extents()));
    std::memcpy(begin + element, from, elements * element);
    return begin + element;
  }

  std::string judge(const std::vector<double>& values, double share) const {
    const std::vector<double> before = y_.values();
    std::vector<plumb::OracleTerm> terms = plumb::conv_oracle(
        problem_, x_.view(), w_.view(), options_.bias ? bias_.view() : plumb::ConstTensorView());
    const plumb::Numerics numerics{
        .operand = options_.of.splits_in_memory()            ? plumb::Operand::fp16
                   : options_.of.stored == plumb::DType::f32 ? plumb::Operand::tf32_rounded
                   : options_.of.stored == plumb::DType::f16 ? plumb::Operand::fp16
                                                             : plumb::Operand::bf16,
        .accumulator = plumb::Accumulator::tensor_core_fp32,
        .products = options_.of.products,
        .term_multiple = 16};
    const bool exact = has_exact_sums(options_.data);
    return first_wrong(values, [&](std::size_t i) -> Expected {
      if (options_.accumulate) terms[i].add(before[i]);
      double expected = terms[i].y;
      const double bound =
          exact ? 0 : share * plumb::conv_error_bound(numerics, problem_, terms[i], values[i]);
      if (options_.relu && expected < 0) expected = 0;
      return {expected, bound};
    });
  }

  WideOptions options_;
  plumb::ConvProblem problem_;
  plumb::cuda::WidePlan plan_;
  Random random_;
  HostTensor x_, w_, bias_, y_;
};

}  // namespace plumb_test::emulation
