// Outputs of a few images of a large batch, and what the oracle has there.
#pragma once

#include <cstdint>
#include <vector>

#include "buffers.hpp"
#include "plumb/validate.hpp"

namespace plumb {

/// The first, the last and three images between, as many of their outputs as the oracle computes
/// in about a second.
class SampleCheck {
 public:
  SampleCheck(const Buffers& buffers, Activation activation, std::uint64_t seed);

  /// That it holds at most, of a checked problem.
  static double host_bytes(const ConvProblem& problem);

  /// The largest error over its bound in what the first set's y holds now, and its bias gradient
  /// for the same filters; infinite where an output is no number. Without a promise the bound is
  /// that of a chain of fp32 FMAs.
  double max_error_over_bound(Queue& queue, const Buffers& buffers, const Numerics& numerics) const;

 private:
  struct Point {
    std::size_t image;        ///< an index into images_, which are filters of dw
    std::int64_t k, z, p, q;  ///< of y, pooled where it is; c d h w of dx, c t r s of dw
  };
  void choose_images(std::uint64_t seed);
  void choose_points(std::uint64_t seed);
  void ask_oracle(const Buffers& buffers);
  void ask_for_sums(const Buffers& buffers);     ///< of bias and products, without what y held
  void ask_for_weights(const Buffers& buffers);  ///< the same of dw
  void ask_for_bias_gradient(const Buffers& buffers);
  double bias_gradient_over_bound(Queue& queue, const Buffers& buffers) const;
  std::int64_t offset_in_image(const Point& point) const;  ///< in y, in elements

  ConvProblem problem_;
  Activation activation_;
  std::vector<std::int64_t> images_;
  std::vector<Point> points_;
  std::vector<OracleTerm> expected_;
  std::vector<OracleTerm> bias_gradient_;  ///< of the filters in images_; empty where there is none
};

}  // namespace plumb
