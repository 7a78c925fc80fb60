// One gradient of tensors on the host, for the tests of the pipeline, with all that may take part
// in it, and what the CPU makes of the same.
#pragma once

#include <vector>

#include "plumb/pipeline.hpp"
#include "plumb/plumb.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test {

/// What takes part beside the three tensors.
struct GradientExtras {
  bool bias = false, mask = false, accumulate = false;
};

/// Random integers, whose sums have the same bits in any order, unless `normal`.
class GradientCase {
 public:
  explicit GradientCase(const plumb::ConvProblem& problem, const GradientExtras& extras = {},
                        bool normal = false)
      : problem_(plumb::check(problem)),
        extras_(extras),
        x_(problem_.dtype, problem_.x_extents(), problem_.x_strides),
        w_(problem_.dtype, problem_.w_extents(), problem_.w_strides),
        y_(problem_.dtype, problem_.y_extents(), problem_.y_strides),
        mask_(problem_.dtype, problem_.y_extents()),
        bias_(problem_.dtype, {plumb::bias_elements(problem_)}) {
    Random random(7);
    for (HostTensor* tensor : {&x_, &w_, &y_, &mask_, &bias_})
      if ((tensor != &output() && !(tensor == &bias_ && weights())) || extras.accumulate)
        tensor->fill([&] { return normal ? random.normal() : random.integer(-3, 3); });
  }

  const plumb::ConvProblem& problem() const { return problem_; }
  plumb::ConvOptions options() const {
    return {.bias = extras_.bias, .accumulate = extras_.accumulate, .relu_mask = extras_.mask};
  }
  HostTensor& x() { return x_; }
  HostTensor& dy() { return y_; }
  HostTensor& output() { return weights() ? w_ : x_; }
  plumb::ConvTensors tensors() {
    plumb::ConvTensors tensors;
    tensors.x = weights() ? x_.view() : y_.view();
    tensors.w = weights() ? y_.view() : w_.view();
    tensors.y = output().view();
    if (extras_.mask) tensors.mask = mask_.view();
    if (extras_.bias && weights()) tensors.db = bias_.view();
    if (extras_.bias && !weights()) tensors.bias = bias_.view();
    return tensors;
  }
  /// All that may have been written, canaries and all.
  std::vector<std::byte> written() const {
    std::vector<std::byte> bytes = weights() ? w_.bytes() : x_.bytes();
    bytes.insert(bytes.end(), bias_.bytes().begin(), bias_.bytes().end());
    return bytes;
  }
  /// The same as the CPU writes it, from all that is there now.
  std::vector<std::byte> expected() const {
    GradientCase copy = *this;
    plumb::Queue queue(plumb::Device::open("cpu"));
    plumb::ConvPlan(queue.device(), problem_, options()).execute(queue, copy.tensors());
    return copy.written();
  }

 private:
  bool weights() const { return problem_.direction == plumb::Direction::backward_weights; }

  plumb::ConvProblem problem_;
  GradientExtras extras_;
  HostTensor x_, w_, y_, mask_, bias_;
};

}  // namespace plumb_test
