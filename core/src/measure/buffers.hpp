// The tensors of one problem on a device, filled with data whose every element the host knows
// without holding all of it, in one set or several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plumb/conv.hpp"

namespace plumb {

/// Random normal values as stored, laid over memory again and again: the element `i` places from
/// the lowest address is value `i % count`. Long enough that images differ, short enough that a
/// gigabyte of tensors is made in a moment.
class Pattern {
 public:
  Pattern(DType dtype, std::int64_t elements, double scale, std::uint64_t seed);

  const std::vector<std::byte>& bytes() const { return bytes_; }
  /// `values.size()` of them from `element` on, each `step` further than the last.
  void read(std::int64_t element, std::int64_t step, std::span<double> values) const;

 private:
  DType dtype_;
  std::vector<std::byte> bytes_;
};

/// The elements between the first and the last of a tensor, both counted. Error (invalid_argument)
/// on a negative stride.
std::int64_t span_elements(const Extents& extents, const Strides& strides);

/// Where the tensors of one set lie in it, in bytes, each at a multiple of 256: x, w and y by their
/// parts in the problem's direction, and in the bias's place its gradient in backward weights.
struct SetLayout {
  SetLayout(const ConvProblem& problem, bool bias);
  std::size_t x_bytes, w_bytes, bias_bytes, y_bytes;
  std::size_t w_at, bias_at, y_at;  ///< x lies at 0
  std::size_t bytes;                ///< of the whole set
};

class Buffers {
 public:
  /// One set. `problem` has been checked; of `options` the bias and whether y is added to count.
  Buffers(Queue& queue, const ConvProblem& problem, const ConvOptions& options, std::uint64_t seed);

  const ConvProblem& problem() const { return problem_; }
  bool has_bias() const { return layout_.bias_bytes > 0; }
  bool accumulates() const { return accumulates_; }
  /// Adds sets that hold the same until all of them together pass `bytes`, or until the device's
  /// free memory is half used up.
  void spread(Queue& queue, std::size_t bytes);
  int sets() const { return sets_; }
  ConvTensors tensors(int set) const;

  /// The first set's y as it is before a run that is checked: where the run adds to it the y
  /// pattern, otherwise bytes of 0xff, which are NaN in every stored type; and the bias's gradient
  /// likewise, with the bias pattern.
  void prepare_output(Queue& queue) const;
  /// The bytes of image `n` of the first set's y, from its first to its last element; of dw those
  /// of filter `n`.
  std::vector<std::byte> output_image(Queue& queue, std::int64_t n) const;

  /// The bytes of the first set's bias gradient, K elements.
  std::vector<std::byte> bias_gradient(Queue& queue) const;

  const Pattern& x_pattern() const { return x_; }
  const Pattern& w_pattern() const { return w_; }
  const Pattern& bias_pattern() const { return bias_; }
  const Pattern& y_pattern() const { return y_; }  ///< what y holds before it is added to

 private:
  std::byte* set_begin(int set) const;
  void prepare(Queue& queue, std::size_t at, const Pattern& before, std::size_t bytes) const;

  Device device_;
  ConvProblem problem_;
  SetLayout layout_;
  bool accumulates_;
  Pattern x_, w_, bias_, y_;
  Tensor first_, others_;
  int sets_ = 1;
};

}  // namespace plumb
