// Round numbers: 1, 2 and 5 times powers of ten.
#include "plot/axis.hpp"

#include <algorithm>
#include <cmath>

namespace plumb::app {
namespace {

constexpr double slack = 1e-9;  // 0.3 = 3 * 0.1 must count as reached

/// The largest of 1, 2, 5, 10, ... at or below a positive value.
double round_down(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value) + slack));
  const double digits = value / power * (1 + slack);
  return power * (digits >= 5 ? 5 : digits >= 2 ? 2 : 1);
}

/// The next of the series after one of its members.
double next_round(double member) {
  const double power = std::pow(10.0, std::floor(std::log10(member) + slack));
  const double digit = std::round(member / power);
  return power * (digit == 1 ? 2 : digit == 2 ? 5 : 10);
}

double round_up(double value) {
  const double below = round_down(value);
  return below * (1 + slack) >= value ? below : next_round(below);
}

double sane(double value) { return std::isfinite(value) && value > 0 ? value : 1; }

}  // namespace

Axis::Axis(Scale scale, double smallest, double largest) : scale_(scale) {
  if (scale == Scale::linear) {
    // Five steps at most above the largest value, so that little of the axis stays empty.
    const double step = round_up(sane(largest) / 5);
    high_ = step * std::ceil(sane(largest) / step - slack);
    return;
  }
  low_ = round_down(sane(smallest) * 0.95);  // so that the smallest bar has some length
  high_ = std::max(round_up(sane(largest)), next_round(low_));
}

Axis Axis::between(double smallest, double largest) {
  if (!std::isfinite(smallest) || !std::isfinite(largest)) smallest = largest = 1;
  double length = largest - smallest;
  if (!(length > 0)) length = std::max(std::abs(largest), 1.0) * 0.1;
  const double step = round_up(length / 5);
  const double low = step * std::floor(smallest / step + slack);
  return {low, std::max(step * std::ceil(largest / step - slack), low + step)};
}

double Axis::share(double value) const {
  const double share = scale_ == Scale::linear ? (value - low_) / (high_ - low_)
                                               : std::log(value / low_) / std::log(high_ / low_);
  return std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
}

std::vector<double> Axis::ticks(int count) const {
  std::vector<double> ticks;
  if (scale_ == Scale::linear) {
    const double step = round_up((high_ - low_) / std::max(1, count));
    const double first = std::ceil(low_ / step - slack);
    const double last = std::floor(high_ / step + slack);
    for (double i = first; i <= last; ++i) ticks.push_back(i * step);
    return ticks;
  }
  for (double tick = low_; tick <= high_ * (1 + slack); tick = next_round(tick))
    ticks.push_back(tick);
  if (static_cast<int>(ticks.size()) <= count) return ticks;
  const auto is_power = [](double tick) {
    return std::abs(std::log10(tick) - std::round(std::log10(tick))) < slack;
  };
  std::erase_if(ticks, [&](double tick) { return !is_power(tick); });
  // Powers of ten alone, and of those every second, third, ... where they are still too many.
  const std::size_t stride = (ticks.size() + count - 1) / std::max(1, count);
  std::vector<double> kept;
  for (std::size_t i = 0; i < ticks.size(); i += std::max<std::size_t>(1, stride))
    kept.push_back(ticks[i]);
  return kept;
}

}  // namespace plumb::app
