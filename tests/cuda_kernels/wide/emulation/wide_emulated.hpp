// A convolution that the emulated wide kernel makes, and how its outputs are judged.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "cuda_kernels/wide/emulation/convolved.hpp"
#include "placing.hpp"
#include "plumb/plumb.hpp"
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
  int cluster_blocks = 0;  ///< of all clusters at once; 0: as planned
  EmulatedFault fault = EmulatedFault::none;
};

class WideEmulated {
 public:
  WideEmulated(const std::string& text, const WideOptions& options, std::uint32_t seed = 1)
      : options_(options),
        problem_(placed(text, options.of.stored, options)),
        plan_(problem_, options.of, hopper(),
              {options.choice.shape, options.choice.splits, options.folded_axes, options.across,
               options.choice.cluster}),
        tensors_(problem_, options, seed) {
    if (options.images_at_once > 0) plan_.input.images = options.images_at_once;
    if (options.cluster_blocks > 0) plan_.tiles.cluster_blocks = options.cluster_blocks;
  }

  const plumb::ConvProblem& problem() const { return problem_; }
  const plumb::cuda::WidePlan& plan() const { return plan_; }
  const HostTensor& x() const { return tensors_.x; }
  const HostTensor& w() const { return tensors_.w; }

  /// Convolves, and returns what is wrong with y; empty where nothing is. Sums of integers are
  /// exact, those of other data within `share` of what the arithmetic is allowed.
  std::string run(double share = 1) {
    return tensors_.convolve(run_of(), options_, run_wide, numerics(), share);
  }
  WideRun run_of(const void* x = nullptr) const {
    return {.problem = problem_,
            .plan = plan_,
            .x = x,
            .w = tensors_.w.view().data(),
            .fault = options_.fault};
  }

 private:
  plumb::Numerics numerics() const {
    return {.operand = options_.of.splits_in_memory() ? plumb::Operand::fp16
                                                      : tensor_core_operand(options_.of.stored),
            .accumulator = plumb::Accumulator::tensor_core_fp32,
            .products = options_.of.products,
            .term_multiple = 16};
  }

  WideOptions options_;
  plumb::ConvProblem problem_;
  plumb::cuda::WidePlan plan_;
  ConvTensors tensors_;
};

}  // namespace plumb_test::emulation
