// Sums become elements of dw: parts are added by a tree, what is NaN is summed again, and all is
// rounded to the stored type.
#pragma once

#include <cstdint>

#include "cpu_kernels/weights/weights_plan.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/gradient_tree.hpp"

namespace plumb {

/// The output of a launch; Real is the type of the sums.
template <class Real>
class WeightsOutput {
 public:
  /// With an `order`, which must outlive this, what is written has the bits that it specifies: what
  /// is NaN is summed again in it, and no zero is -0.
  WeightsOutput(const ConvLaunch& launch, const WeightsAxes& axes, const GradientTree* order);

  /// Writes `count` elements of filter k, from its `term`th (in the order c t r s) on.
  void write(const Real* sums, std::int64_t k, std::int64_t term, std::int64_t count) const;
  /// Returns where `count` sums of filter k may be written as they are, or null where they have to
  /// be rounded, added to what is there, or put apart. mend() has to follow.
  Real* place(std::int64_t k, std::int64_t term, std::int64_t count) const;
  /// Returns where sums of one tap of neighbouring channels, from the one of `term` on, may be
  /// written as they are, or null. mend() has to follow.
  Real* place_channels(std::int64_t k, std::int64_t term) const;
  /// Sums again what is NaN of `count` sums of terms `step` apart that were written so.
  void mend(Real* sums, std::int64_t k, std::int64_t term, std::int64_t count,
            std::int64_t step = 1) const;
  /// Adds the parts, [part][k][c t r s], of elements [begin, end) of dw, and writes them.
  void add_parts(Real* parts, std::int64_t count, std::int64_t begin, std::int64_t end) const;

 private:
  template <bool in_order, class Stored>
  void write_as(const Real* sums, std::int64_t k, std::int64_t term, std::int64_t count) const;
  bool takes_sums() const;  ///< whether what is stored are sums, neither rounded nor added
  Real* element(std::int64_t k, std::int64_t term) const;
  template <class Stored>
  Real sum_inside(std::int64_t k, std::int64_t term) const;

  const ConvLaunch& launch_;
  WeightsAxes axes_;
  const GradientTree* order_;
  std::int64_t taps_, terms_;
  std::int64_t run_, step_;  ///< neighbouring terms that lie `step_` elements apart, from multiples
};

}  // namespace plumb
