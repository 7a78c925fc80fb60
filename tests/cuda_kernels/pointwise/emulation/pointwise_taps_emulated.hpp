// A convolution of few terms that the emulated kernel makes, and how its outputs are judged.
#pragma once

#include <string>
#include <vector>

#include "cuda_kernels/wide/emulation/convolved.hpp"
#include "cuda_kernels/wide/emulation/placing.hpp"
#include "plumb/plumb.hpp"
#include "plumb/validate.hpp"
#include "pointwise_taps_run.hpp"
#include "support/absent_device.hpp"

namespace plumb_test::emulation {

struct TapsOptions {
  plumb::cuda::PointwiseClass of = plumb::cuda::pointwise_class_fp16;
  Placing x = Placing::planes, y = Placing::planes;
  int group_chunks = 0;  ///< 0: as planned
  Data data = Data::integers;
  bool bias = false, relu = false, accumulate = false;
  bool shifted = false;    ///< x begins one element behind an aligned address
  bool exchanged = false;  ///< filters lie as those of backward data: channels outermost
  int images_at_once = 0;  ///< of a slice; 0: as planned
  double share = 1;        ///< of the bound
};

class TapsEmulated {
 public:
  TapsEmulated(const std::string& text, const TapsOptions& options, std::uint32_t seed = 1)
      : options_(options),
        problem_(placed(text, options.of.stored, options)),
        plan_(problem_, options.of, small_gpu(), options.group_chunks),
        tensors_(problem_, options, seed) {
    if (options.images_at_once > 0) plan_.images = options.images_at_once;
  }

  plumb::cuda::TapsPlan& plan() { return plan_; }
  plumb::cuda::TapsOutput output() const {
    return plumb::cuda::taps_output(problem_, plan_.filters, options_.accumulate, nullptr);
  }
  std::vector<char> packed_filters() const {
    return packed_taps(problem_, plan_, tensors_.w.view().data());
  }
  /// Convolves, and returns what is wrong with y; empty where nothing is.
  std::string run() {
    if (plumb::Support support = plumb::cuda::supports_taps(problem_, options_.of, small_gpu());
        !support)
      return support.sentence;
    return tensors_.convolve(TapsRunning{.problem = problem_, .plan = plan_}, options_, run_taps,
                             plumb::Numerics{.operand = tensor_core_operand(options_.of.stored),
                                             .accumulator = plumb::Accumulator::tensor_core_fp32,
                                             .products = options_.of.products,
                                             .term_multiple = 16},
                             options_.share);
  }

 private:
  /// One of few multiprocessors, whose blocks go through several tiles.
  static plumb::DeviceInfo small_gpu() {
    plumb::DeviceInfo device = hopper();
    device.units = 2;
    return device;
  }

  TapsOptions options_;
  plumb::ConvProblem problem_;
  plumb::cuda::TapsPlan plan_;
  ConvTensors tensors_;
};

}  // namespace plumb_test::emulation
