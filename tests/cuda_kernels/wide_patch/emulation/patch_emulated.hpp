// A convolution that the emulated patch kernel makes, and how its outputs are judged.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "cuda_kernels/wide/emulation/convolved.hpp"
#include "cuda_kernels/wide/emulation/placing.hpp"
#include "patch_run.hpp"
#include "plumb/plumb.hpp"
#include "plumb/validate.hpp"
#include "support/absent_device.hpp"

namespace plumb_test::emulation {

struct PatchOptions {
  plumb::cuda::WideClass of = plumb::cuda::wide_class_fp16;
  Placing x = Placing::channels_last, y = Placing::channels_last;
  plumb::cuda::PatchChoice choice = {};
  Data data = Data::integers;
  bool bias = false, relu = false, accumulate = false;
  bool shifted = false;    ///< x begins one element behind an aligned address
  int images_at_once = 0;  ///< that are repacked; 0: as planned
  EmulatedPatchFault fault = EmulatedPatchFault::none;
};

/// One of few multiprocessors, for which tiles of small problems are not cut small.
inline plumb::DeviceInfo small_hopper() {
  plumb::DeviceInfo device = hopper();
  device.units = 3;
  return device;
}

class PatchEmulated {
 public:
  PatchEmulated(const std::string& text, const PatchOptions& options, std::uint32_t seed = 1)
      : PatchEmulated(plumb::parse_problem(text).problem, options, seed) {}
  PatchEmulated(const plumb::ConvProblem& problem, const PatchOptions& options, std::uint32_t seed)
      : options_(options),
        problem_(placed(problem, options.of.stored, options)),
        plan_(problem_, options.of, small_hopper(), options.choice),
        tensors_(problem_, options, seed) {
    if (options.images_at_once > 0) plan_.input.images = options.images_at_once;
  }

  const plumb::ConvProblem& problem() const { return problem_; }
  const plumb::cuda::PatchPlan& plan() const { return plan_; }

  /// Convolves, and returns what is wrong with y; empty where nothing is.
  std::string run() {
    if (plumb::Support support =
            plumb::cuda::supports_wide_patch(problem_, options_.of, small_hopper());
        !support)
      return support.sentence;
    if (plan_.tiles.kernel < 0) return "no tiles";
    return tensors_.convolve(PatchRun{.problem = problem_, .plan = plan_, .fault = options_.fault},
                             options_, run_patch, numerics());
  }

 private:
  plumb::Numerics numerics() const {
    return {.operand = tensor_core_operand(options_.of.stored),
            .accumulator = plumb::Accumulator::tensor_core_fp32,
            .term_multiple = 16};
  }

  PatchOptions options_;
  plumb::ConvProblem problem_;
  plumb::cuda::PatchPlan plan_;
  ConvTensors tensors_;
};

}  // namespace plumb_test::emulation
