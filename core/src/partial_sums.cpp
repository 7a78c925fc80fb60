// Pairwise sums of partial gradients.
#include "partial_sums.hpp"

#include <bit>

#include "plumb/backend.hpp"
#include "ranks.hpp"

namespace plumb {

PartialSums::PartialSums(const Device& device, DType dtype, const Extents& dw,
                         const Strides& strides, std::int64_t bias, std::int64_t segments) {
  for (std::int64_t i = 0; i < kept(segments); ++i)
    sums_.push_back({.dw = Tensor(device, dtype, dw, strides),
                     .db = bias > 0 ? Tensor(device, dtype, {bias}) : Tensor()});
}

std::int64_t PartialSums::kept(std::int64_t segments) {
  // Before segment i there are as many sums as i has ones, and one more with it.
  const auto last = static_cast<std::uint64_t>(segments - 1);
  const bool all_ones = std::has_single_bit(last + 1);
  return static_cast<std::int64_t>(std::bit_width(last)) + (all_ones ? 1 : 0);
}

int PartialSums::depth(std::int64_t segments) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(segments - 1)));
}

void PartialSums::take(Queue& queue) {
  ++count_, ++taken_;
  for (std::int64_t pairs = taken_; pairs % 2 == 0; pairs /= 2) add_last(queue);
}

const PartialGradient& PartialSums::finish(Queue& queue) {
  while (count_ > 1) add_last(queue);
  return sums_.front();
}

/// The earlier one comes first.
void PartialSums::add_last(Queue& queue) {
  add(queue, sums_[count_ - 1], sums_[count_ - 2]);
  --count_;
}

void add(Queue& queue, const PartialGradient& from, const PartialGradient& to) {
  const auto sum = [&](const ConstTensorView& x, const TensorView& y) {
    queue.backend().add({.x = with_all_axes(x), .y = with_all_axes(y)});
  };
  sum(from.dw, to.dw.view());
  if (from.db.data()) {
    const Extents channels{1, from.db.extents()[0], 1, 1};
    sum(ConstTensorView(from.db.data(), from.db.dtype(), channels, from.db.view().device()),
        TensorView(to.db.view().data(), to.db.dtype(), channels, to.db.view().device()));
  }
}

}  // namespace plumb
