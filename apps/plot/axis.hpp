// An axis of a chart: where a value lies, and which values to mark.
#pragma once

#include <vector>

namespace plumb::app {

enum class Scale { linear, logarithmic };

/// Maps [low, high] onto pixels.
class Axis {
 public:
  /// From zero to a round number at or above `largest`, or, logarithmic, from a round number below
  /// `smallest` to one at or above `largest`. Values that are not positive, or not finite, count as
  /// 1 there.
  Axis(Scale scale, double smallest, double largest);

  /// Linear, from a round number at or below `smallest` to one at or above `largest`; around 1
  /// where they are not finite.
  static Axis between(double smallest, double largest);

  double low() const { return low_; }
  double high() const { return high_; }
  /// 0 at low(), 1 at high(); values outside lie at the ends.
  double share(double value) const;
  /// Round values between low and high, both included, at most about `count`.
  std::vector<double> ticks(int count) const;

 private:
  Axis(double low, double high) : scale_(Scale::linear), low_(low), high_(high) {}

  Scale scale_;
  double low_ = 0, high_ = 1;
};

}  // namespace plumb::app
