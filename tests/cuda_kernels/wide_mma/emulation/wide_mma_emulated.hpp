// A convolution that the emulated kernel of wide_mma/ makes, and how its outputs are judged.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "cuda_kernels/wide/emulation/convolved.hpp"
#include "cuda_kernels/wide/emulation/placing.hpp"
#include "plumb/plumb.hpp"
#include "plumb/validate.hpp"
#include "support/absent_device.hpp"
#include "wide_mma_run.hpp"

namespace plumb_test::emulation {

struct WideMmaOptions {
  plumb::cuda::WideClass of = plumb::cuda::wide_class_fp16;
  Placing x = Placing::channels_last, y = Placing::channels_last;
  int shape = -1;  ///< of wide_mma_shapes; negative: as planned
  int splits = 1;  ///< 0: as planned
  Data data = Data::integers;
  bool bias = false, relu = false, accumulate = false;
  bool shifted = false;    ///< x begins one element behind an aligned address
  bool exchanged = false;  ///< filters lie as those of backward data: channels outermost
  int gap = 0;             ///< elements behind each pixel of a channels-last x
  int images_at_once = 0;  ///< where x is repacked; 0: as planned
  plumb::cuda::WideMmaFault fault = plumb::cuda::WideMmaFault::none;
};

class WideMmaEmulated {
 public:
  WideMmaEmulated(const std::string& text, const WideMmaOptions& options, std::uint32_t seed = 1)
      : options_(options),
        problem_(placed(text, options.of.stored, options)),
        plan_(problem_, options.of, ampere(), {.shape = options.shape, .splits = options.splits}),
        tensors_(problem_, options, seed) {
    if (options.images_at_once > 0) plan_.input.images = options.images_at_once;
  }

  const plumb::ConvProblem& problem() const { return problem_; }
  plumb::cuda::WideMmaPlan& plan() { return plan_; }

  /// Convolves, and returns what is wrong with y; empty where nothing is.
  std::string run() {
    if (plumb::Support support = plumb::cuda::supports_wide_mma(problem_, options_.of, ampere());
        !support)
      return support.sentence;
    return tensors_.convolve(
        WideMmaRun{.problem = problem_, .plan = plan_, .fault = options_.fault}, options_,
        run_wide_mma, numerics());
  }

 private:
  plumb::Numerics numerics() const {
    const bool doubles = options_.of.stored == plumb::DType::f64;
    return {.operand = tensor_core_operand(options_.of.stored),
            .accumulator =
                doubles ? plumb::Accumulator::fp64_fma : plumb::Accumulator::tensor_core_fp32,
            .term_multiple = 16};
  }

  WideMmaOptions options_;
  plumb::ConvProblem problem_;
  plumb::cuda::WideMmaPlan plan_;
  ConvTensors tensors_;
};

}  // namespace plumb_test::emulation
