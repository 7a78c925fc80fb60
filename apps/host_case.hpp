// One convolution of tensors on the host: data, memory of either kind, and a check of the result.
#pragma once

#include <cstdint>
#include <string_view>

#include "plumb/plumb.hpp"

namespace plumb::app {

enum class HostMemory { pageable, pinned };
std::string_view to_string(HostMemory);

class HostCase {
 public:
  /// x and w hold random normal values, those of w scaled so that outputs are about 1; y holds NaN.
  /// `problem` has been checked and its tensors have no gaps. Error (out_of_memory).
  HostCase(const Device& device, const ConvProblem& problem, HostMemory memory,
           std::uint64_t seed = 1);

  ConvTensors tensors() const { return {.x = x_, .w = w_, .y = y_.view()}; }
  void poison_output();
  /// The largest error over its bound among outputs of the first and the last image of every
  /// segment and of images drawn from the seed; infinite where any output of any image is NaN.
  double max_error_over_bound(const Numerics& numerics, std::int64_t images_per_segment) const;

 private:
  double error_over_bound_at(const Numerics& numerics, std::int64_t n, std::uint64_t draw) const;
  bool has_nan() const;

  ConvProblem problem_;
  std::uint64_t seed_;
  Tensor x_, w_, y_;
};

}  // namespace plumb::app
