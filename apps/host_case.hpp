// One convolution or gradient of tensors on the host: data, memory of either kind, and a check of
// the result.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "plumb/plumb.hpp"

namespace plumb::app {

enum class HostMemory { pageable, pinned };
std::string_view to_string(HostMemory);

class HostCase {
 public:
  /// What is read holds random normal values, those that take the filters' part scaled so that
  /// outputs are about 1; the output holds NaN. `problem` has been checked and its tensors have no
  /// gaps. Error (out_of_memory).
  HostCase(const Device& device, const ConvProblem& problem, HostMemory memory,
           std::uint64_t seed = 1);

  ConvTensors tensors() const { return {.x = image_, .w = filters_, .y = output_.view()}; }
  void poison_output();
  /// The largest error over its bound that the pipeline has made, among outputs of the first and
  /// the last image of every segment and of images drawn from the seed, or among elements of dw
  /// drawn from it; infinite where any output is NaN.
  double max_error_over_bound(const ConvPipeline& pipeline) const;

 private:
  std::vector<std::int64_t> judged(const ConvPipeline& pipeline) const;
  double error_over_bound_at(const ConvPipeline& pipeline, std::int64_t first,
                             std::uint64_t draw) const;
  bool has_nan() const;

  ConvProblem problem_;
  std::uint64_t seed_;
  Tensor image_, filters_, output_;
};

}  // namespace plumb::app
