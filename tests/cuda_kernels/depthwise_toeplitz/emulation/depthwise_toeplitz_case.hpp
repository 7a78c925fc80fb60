// A convolution that the emulated kernel of depthwise_toeplitz/ computes, and how it is judged.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "cuda_kernels/fields/emulation/judged.hpp"
#include "depthwise_toeplitz_run.hpp"
#include "plumb/plumb.hpp"
#include "plumb/validate.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::emulation {

using plumb::cuda::DepthwiseToeplitzFault;
using plumb::cuda::DepthwiseToeplitzPlan;

struct DepthwiseToeplitzOptions {
  Data data = Data::integers;
  bool bias = false, relu = false, accumulate = false;
  std::size_t shifted = 0;  ///< bytes that tensors lie behind their alignment
  DepthwiseToeplitzFault fault = DepthwiseToeplitzFault::none;
};

/// A copy of a tensor's memory that begins so many bytes behind a multiple of 16.
class ShiftedMemory {
 public:
  ShiftedMemory(const HostTensor& tensor, std::size_t shifted)
      : before_(static_cast<const std::byte*>(tensor.view().data()) - tensor.bytes().data()),
        memory_(tensor.bytes().size() + 32) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    begin_ = memory_.data() + ((address + 15) / 16 * 16 + shifted - address);
    std::memcpy(begin_, tensor.bytes().data(), tensor.bytes().size());
  }
  void* data() { return begin_ + before_; }
  void copy_to(HostTensor& tensor) const {
    std::memcpy(static_cast<std::byte*>(tensor.view().data()) - before_, begin_,
                tensor.bytes().size());
  }

 private:
  std::ptrdiff_t before_;
  std::vector<std::byte> memory_;
  std::byte* begin_;
};

class DepthwiseToeplitzCase {
 public:
  DepthwiseToeplitzCase(const plumb::ConvProblem& problem, const DepthwiseToeplitzOptions& options,
                        std::uint32_t seed)
      : problem_(problem),
        options_(options),
        x_(problem.dtype, problem.x_extents(), problem.x_strides),
        w_(problem.dtype, problem.w_extents(), problem.w_strides),
        bias_(problem.dtype, {problem.k}),
        y_(problem.dtype, problem.y_extents(), problem.y_strides) {
    Random random(seed);
    for (HostTensor* tensor : {&x_, &w_, &bias_, &y_})
      tensor->fill([&] { return draw(random, options.data); });
    if (options.data == Data::infinite) {
      put(x_, random, INFINITY), put(x_, random, -INFINITY, true);
      if (random.integer(0, 1) == 0) put(x_, random, NAN);
      if (random.integer(0, 2) == 0) put(w_, random, INFINITY, random.integer(0, 1) == 0);
    }
  }
  HostTensor& x() { return x_; }
  HostTensor& w() { return w_; }

  /// The outputs.
  std::vector<double> launch(const DepthwiseToeplitzPlan& plan) {
    HostTensor y = y_;
    ShiftedMemory x_memory(x_, options_.shifted), y_memory(y_, options_.shifted);
    plumb::DeviceInfo device;
    const plumb::ConvLaunch call{
        .problem = problem_,
        .device = device,
        .x = x_memory.data(),
        .w = w_.view().data(),
        .bias = options_.bias ? bias_.view().data() : nullptr,
        .y = y_memory.data(),
        .activation = options_.relu ? plumb::Activation::relu : plumb::Activation::none,
        .accumulate = options_.accumulate,
        .workspace = nullptr,
        .native_queue = nullptr};
    by_definition_ = run_depthwise_toeplitz(plan, call, options_.fault);
    y_memory.copy_to(y);
    REQUIRE(y.surroundings_untouched());
    return y.values();
  }

  /// Runs the plan, and returns what is wrong with y; empty where nothing is. Sums of small
  /// integers are exact, others lie within the bound of the chain.
  std::string run(const DepthwiseToeplitzPlan& plan) {
    const std::vector<double> values = launch(plan);
    if (options_.data != Data::infinite && by_definition_ != 0)
      return std::to_string(by_definition_) + " outputs were NaN on the way";
    return judge(values);
  }

  /// Of the last launch.
  long by_definition() const { return by_definition_; }

  std::string judge(const std::vector<double>& values) {
    using plumb::Operand;
    const plumb::Numerics numerics{
        .operand = problem_.dtype == plumb::DType::f16 ? Operand::fp16 : Operand::bf16,
        .accumulator = plumb::Accumulator::tensor_core_fp32,
        .chain = plumb::cuda::depthwise_toeplitz_chain};
    const bool exact = has_exact_sums(options_.data);
    const std::vector<double> before = y_.values();
    const std::vector<plumb::OracleTerm> oracle = conv_oracle(
        problem_, x_.view(), w_.view(), options_.bias ? bias_.view() : plumb::ConstTensorView());
    return first_wrong(values, [&](std::size_t i) -> Expected {
      plumb::OracleTerm of = oracle[i];
      if (options_.accumulate) of.add(before[i]);
      const double bound = exact ? 0 : plumb::conv_error_bound(numerics, problem_, of, values[i]);
      if (options_.relu && of.y < 0) of.y = 0;
      return {exact ? stored_as(problem_.dtype, of.y) : of.y, bound};
    });
  }

 private:
  plumb::ConvProblem problem_;
  DepthwiseToeplitzOptions options_;
  HostTensor x_, w_, bias_, y_;
  long by_definition_ = 0;
};

}  // namespace plumb_test::emulation
