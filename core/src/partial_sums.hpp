// The gradients of a batch's segments become that of the batch, by a tree of sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plumb/device.hpp"
#include "plumb/tensor.hpp"

namespace plumb {

/// What a segment makes, and what sums of them are.
struct PartialGradient {
  Tensor dw;
  Tensor db;  ///< empty: none
};

/// Sums of pairs, sums of pairs of those, and so on: the number of segments alone says which are
/// added to which, and no segment goes through more than ceil(log2(segments)) additions, each
/// rounded to the stored type (pairwise summation: Higham, Accuracy and Stability of Numerical
/// Algorithms, section 4.1). As many sums are kept as a binary counter of the segments has ones.
class PartialSums {
 public:
  PartialSums() = default;
  /// Allocates for so many segments. dw has no gaps. Error (out_of_memory).
  PartialSums(const Device& device, DType dtype, const Extents& dw, const Strides& strides,
              std::int64_t bias, std::int64_t segments);
  /// The sums that are kept at once, at most.
  static std::int64_t kept(std::int64_t segments);
  /// The additions that one of so many segments goes through, at most.
  static int depth(std::int64_t segments);

  /// Forgets what an earlier run left behind, whether it had come to its end or not.
  void restart() { count_ = 0, taken_ = 0; }
  /// Where the next segment's gradient goes.
  const PartialGradient& next() const { return sums_[count_]; }
  /// The gradient in next() is on its way: puts the sums that it completes on the queue.
  void take(Queue& queue);
  /// Puts what is left to be summed on the queue and returns all of the sum. At least one segment
  /// has been taken.
  const PartialGradient& finish(Queue& queue);

 private:
  void add_last(Queue& queue);

  std::vector<PartialGradient> sums_;
  std::size_t count_ = 0;   ///< of sums that are under way
  std::int64_t taken_ = 0;  ///< segments
};

/// to += from, of what has been checked.
void add(Queue& queue, const PartialGradient& from, const PartialGradient& to);

}  // namespace plumb
