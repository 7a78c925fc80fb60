// A convolution that the emulated pointwise kernel makes, and how its outputs are judged.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "cuda_kernels/wide/emulation/convolved.hpp"
#include "cuda_kernels/wide/emulation/placing.hpp"
#include "plumb/plumb.hpp"
#include "plumb/validate.hpp"
#include "pointwise_run.hpp"
#include "support/absent_device.hpp"

namespace plumb_test::emulation {

struct PointwiseOptions {
  plumb::cuda::PointwiseClass of = plumb::cuda::pointwise_class_fp16;
  Placing x = Placing::channels_last, y = Placing::channels_last;
  plumb::cuda::PointwiseChoice choice = {};
  Data data = Data::integers;
  bool bias = false, relu = false, accumulate = false;
  bool shifted = false;    ///< x begins one element behind an aligned address
  bool exchanged = false;  ///< filters lie as those of backward data: channels outermost
  int images_at_once = 0;  ///< of a slice; 0: as planned
  double share = 1;        ///< of the bound
  plumb::cuda::PointwiseFault fault = plumb::cuda::PointwiseFault::none;
};

/// One of few multiprocessors, whose blocks go through several tiles.
inline plumb::DeviceInfo small_gpu() {
  plumb::DeviceInfo device = hopper();
  device.units = 2;
  return device;
}

class PointwiseEmulated {
 public:
  PointwiseEmulated(const std::string& text, const PointwiseOptions& options,
                    std::uint32_t seed = 1)
      : PointwiseEmulated(plumb::parse_problem(text).problem, options, seed) {}
  PointwiseEmulated(const plumb::ConvProblem& problem, const PointwiseOptions& options,
                    std::uint32_t seed)
      : options_(options),
        problem_(placed(problem, options.of.stored, options)),
        plan_(problem_, options.of, small_gpu(), options.choice),
        tensors_(problem_, options, seed) {
    if (options.images_at_once > 0) plan_.images = options.images_at_once;
  }

  const plumb::ConvProblem& problem() const { return problem_; }
  plumb::cuda::PointwisePlan& plan() { return plan_; }
  plumb::cuda::PointwiseInput input() const {
    return plumb::cuda::pointwise_input(problem_, options_.of, nullptr);
  }
  plumb::cuda::PointwiseOutput output() const {
    return plumb::cuda::pointwise_output(problem_, plan_.filters, nullptr);
  }

  std::vector<char> packed_filters() const {
    return packed_pointwise(problem_, plan_, tensors_.w.view().data());
  }

  /// Convolves, and returns what is wrong with y; empty where nothing is.
  std::string run() {
    if (plumb::Support support =
            plumb::cuda::supports_pointwise(problem_, options_.of, small_gpu());
        !support)
      return support.sentence;
    return tensors_.convolve(
        PointwiseRun{.problem = problem_, .plan = plan_, .fault = options_.fault}, options_,
        run_pointwise, numerics(), options_.share);
  }

 private:
  plumb::Numerics numerics() const {
    return {.operand = tensor_core_operand(options_.of.stored),
            .accumulator = plumb::Accumulator::tensor_core_fp32,
            .products = options_.of.products,
            .term_multiple = 16};
  }

  PointwiseOptions options_;
  plumb::ConvProblem problem_;
  plumb::cuda::PointwisePlan plan_;
  ConvTensors tensors_;
};

}  // namespace plumb_test::emulation
