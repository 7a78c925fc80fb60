// Sums become elements of dw: parts are added by a tree, what is NaN is summed again, and all is
// rounded to the stored type.
#pragma once

#include <cstdint>

#include "cpu_kernels/weights/weights_plan.hpp"
#include "plumb/algorithm.hpp"

namespace plumb {

/// The output of a launch; Real is the type of the sums.
template <class Real>
class WeightsOutput {
 public:
  WeightsOutput(const ConvLaunch& launch, const WeightsAxes& axes);

  /// Writes `count` elements of filter k, from its `term`th (in the order c t r s) on.
  void write(const Real* sums, std::int64_t k, std::int64_t term, std::int64_t count) const;
  /// Adds the parts, [part][k][c t r s], of elements [begin, end) of dw, and writes them.
  void add_parts(Real* parts, std::int64_t count, std::int64_t begin, std::int64_t end) const;

 private:
  template <class Stored>
  void write_as(const Real* sums, std::int64_t k, std::int64_t term, std::int64_t count) const;
  template <class Stored>
  Real sum_inside(std::int64_t k, std::int64_t term) const;

  const ConvLaunch& launch_;
  WeightsAxes axes_;
  std::int64_t taps_, terms_;
  std::int64_t run_, step_;  ///< neighbouring terms that lie `step_` elements apart, from multiples
};

}  // namespace plumb
