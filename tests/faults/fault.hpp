// What the tests of faults share: what goes wrong, for one scope, and one convolution on the host.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "plumb/plumb.hpp"

namespace plumb_test {

/// The fake module goes wrong in this way (see fake_module.cpp) as long as this lives.
class Playing {
 public:
  explicit Playing(const std::string& fault) { setenv("PLUMB_FAKE_FAULT", fault.c_str(), 1); }
  ~Playing() { unsetenv("PLUMB_FAKE_FAULT"); }
  Playing(const Playing&) = delete;
  Playing& operator=(const Playing&) = delete;
};

/// A convolution of small whole numbers in host memory, with every output worked out by the oracle.
class HostCase {
 public:
  HostCase() : problem_(check(make())) {
    int next = 0;
    for (auto* values : {&x_, &w_}) {
      values->resize(static_cast<std::size_t>(
          element_count(values == &x_ ? problem_.x_extents() : problem_.w_extents())));
      for (float& value : *values) value = static_cast<float>(next++ % 7 - 3);
    }
    x_before_ = x_, w_before_ = w_;
    y_.assign(static_cast<std::size_t>(element_count(problem_.y_extents())), unwritten);
    for (const plumb::OracleTerm& term : conv_oracle(problem_, tensors().x, tensors().w))
      expected_.push_back(static_cast<float>(term.y));
  }
  const plumb::ConvProblem& problem() const { return problem_; }
  plumb::ConvTensors tensors() {
    return {.x = plumb::ConstTensorView(x_.data(), problem_.x_extents()),
            .w = plumb::ConstTensorView(w_.data(), problem_.w_extents()),
            .bias = {},
            .y = plumb::TensorView(y_.data(), problem_.y_extents())};
  }
  bool inputs_kept() const { return x_ == x_before_ && w_ == w_before_; }
  bool right() const { return y_ == expected_ && inputs_kept(); }
  /// Whether the convolution was added to what y held.
  bool added() const {
    for (std::size_t i = 0; i < y_.size(); ++i)
      if (y_[i] != expected_[i] + unwritten) return false;
    return inputs_kept();
  }
  void forget() { y_.assign(y_.size(), unwritten); }

 private:
  static constexpr float unwritten = -12345;
  static plumb::ConvProblem make() {
    plumb::ConvProblem problem;
    problem.n = 12, problem.c = 3, problem.h = 11, problem.w = 10;
    problem.k = 4, problem.r = 3, problem.s = 3;
    return problem;
  }
  plumb::ConvProblem problem_;
  std::vector<float> x_, w_, y_, x_before_, w_before_, expected_;
};

}  // namespace plumb_test
