// A convolution that the emulated kernel of grouped/ makes, and how its outputs are judged.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "cuda_kernels/wide/emulation/convolved.hpp"
#include "cuda_kernels/wide/emulation/placing.hpp"
#include "grouped_run.hpp"
#include "plumb/plumb.hpp"
#include "plumb/validate.hpp"
#include "support/absent_device.hpp"

namespace plumb_test::emulation {

struct GroupedOptions {
  plumb::DType stored = plumb::DType::f16;
  Placing x = Placing::channels_last, y = Placing::channels_last;
  plumb::cuda::GroupedChoice choice = {};
  Data data = Data::integers;
  bool bias = false, relu = false, accumulate = false;
  bool shifted = false;    ///< x begins one element behind an aligned address
  bool exchanged = false;  ///< filters lie as those of backward data: turned, channels outermost
  plumb::cuda::GroupedFault fault = plumb::cuda::GroupedFault::none;
};

/// One of few multiprocessors, whose blocks go through several tiles.
inline plumb::DeviceInfo two_units() {
  plumb::DeviceInfo device = ampere();
  device.units = 2;
  return device;
}

class GroupedEmulated {
 public:
  GroupedEmulated(const std::string& text, const GroupedOptions& options, std::uint32_t seed = 1)
      : options_(options),
        problem_(placed(text, options.stored, options)),
        plan_(plumb::cuda::plan_grouped(problem_, two_units(), options.choice).value()),
        tensors_(problem_, options, seed) {}

  const plumb::ConvProblem& problem() const { return problem_; }
  plumb::cuda::GroupedPlan& plan() { return plan_; }
  std::vector<char> packed_filters() const {
    return packed_grouped(problem_, plan_, tensors_.w.view().data());
  }

  /// Returns the bytes of y, which is dense, of a convolution without bias.
  std::vector<char> outputs() const {
    std::vector<char> y(static_cast<std::size_t>(plumb::element_count(problem_.y_extents())) *
                        plumb::size_in_bytes(problem_.dtype));
    run_grouped({.problem = problem_,
                 .plan = plan_,
                 .x = tensors_.x.view().data(),
                 .w = tensors_.w.view().data(),
                 .bias = nullptr,
                 .y = y.data()});
    return y;
  }

  /// Convolves, and returns what is wrong with y; empty where nothing is.
  std::string run() {
    if (plumb::Support support =
            plumb::cuda::supports_grouped(problem_, options_.stored, two_units());
        !support)
      return support.sentence;
    return tensors_.convolve(
        GroupedRun{.problem = problem_, .plan = plan_, .fault = options_.fault}, options_,
        run_grouped, numerics());
  }

 private:
  plumb::Numerics numerics() const {
    return {.operand = tensor_core_operand(options_.stored),
            .accumulator = plumb::Accumulator::tensor_core_fp32,
            .chain = plumb::cuda::grouped_chain};
  }

  GroupedOptions options_;
  plumb::ConvProblem problem_;
  plumb::cuda::GroupedPlan plan_;
  ConvTensors tensors_;
};

}  // namespace plumb_test::emulation
