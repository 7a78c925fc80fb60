// Whether tensors share memory, decided exactly where ranges of memory meet.
//
// An element of a lies at a + sum of i s over a's dimensions, one of b at b + sum of j t. Two share
// a byte where their distance, b - a + sum of j t - sum of i s, is less than an element: a sum of
// multiples of strides, each within its bounds, has to fall into a small interval. That is searched
// for stride by stride from the largest, which leaves one or two multiples to try for strides as
// layouts have them. Where the smaller ones do not reach the interval, or their greatest common
// divisor steps over it, the search goes back (the bounds of Banerjee and the GCD test of
// dependence analysis: Banerjee 1988, Dependence Analysis for Supercomputing).
#include "overlap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <string>

#include "sizes.hpp"

namespace plumb {
namespace {

/// A multiple of `stride`, from `least` times to `most` times, and what all smaller ones make of
/// it.
struct Term {
  std::int64_t stride = 0, least = 0, most = 0;
};

/// Rounded down and up; b is positive.
std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

class Search {
 public:
  /// The multiples of a's strides count down, those of b's up.
  void add(const Extents& extents, const Strides& strides, std::int64_t element, bool up) {
    for (int i = 0; i < extents.rank(); ++i) {
      if (extents[i] <= 1 || strides[i] == 0) continue;
      const std::int64_t steps = extents[i] - 1, stride = std::abs(strides[i]) * element;
      const bool rises = (strides[i] > 0) == up;
      auto* term =
          std::find_if(terms_.begin(), end_, [&](const Term& t) { return t.stride == stride; });
      if (term == end_) *end_++ = {.stride = stride};
      (rises ? term->most : term->least) += rises ? steps : -steps;
    }
  }

  /// Whether some sum may lie in [low, high].
  bool finds(std::int64_t low, std::int64_t high) {
    std::sort(terms_.begin(), end_,
              [](const Term& a, const Term& b) { return a.stride > b.stride; });
    const auto count = static_cast<std::size_t>(end_ - terms_.begin());
    for (std::size_t i = count; i-- > 0;) {
      const Term& term = terms_[i];
      rest_[i] = {.stride = std::gcd(rest_[i + 1].stride, term.stride),
                  .least = rest_[i + 1].least + term.least * term.stride,
                  .most = rest_[i + 1].most + term.most * term.stride};
    }
    return finds(0, count, low, high);
  }

 private:
  bool finds(std::size_t i, std::size_t count, std::int64_t low, std::int64_t high) {
    const Term& all = rest_[i];
    low = std::max(low, all.least), high = std::min(high, all.most);
    if (low > high) return false;
    if (i == count) return true;
    if (ceil_div(low, all.stride) > floor_div(high, all.stride)) return false;
    const Term &term = terms_[i], &smaller = rest_[i + 1];
    const std::int64_t from = std::max(term.least, ceil_div(low - smaller.most, term.stride)),
                       to = std::min(term.most, floor_div(high - smaller.least, term.stride));
    for (std::int64_t times = from; times <= to; ++times) {
      if (--tries_ < 0) return true;
      if (finds(i + 1, count, low - times * term.stride, high - times * term.stride)) return true;
    }
    return false;
  }

  std::array<Term, 2 * Dims::max_rank> terms_;
  Term* end_ = terms_.data();
  /// Of the terms from i on: the least and the greatest sum, and the divisor of all sums.
  std::array<Term, 2 * Dims::max_rank + 1> rest_;
  int tries_ = 1000;  ///< microseconds; layouts take a dozen
};

/// Elements of so many bytes, and where they lie.
struct Elements {
  const void* data;
  std::int64_t bytes;
  const Extents& extents;
  const Strides& strides;
};

ByteRange range_of(const Elements& elements) {
  if (element_count(elements.extents) == 0) return {};
  ByteRange range{.begin = 0, .end = elements.bytes};
  for (int i = 0; i < elements.extents.rank(); ++i) {
    const std::int64_t reach = (elements.extents[i] - 1) * elements.strides[i] * elements.bytes;
    (reach < 0 ? range.begin : range.end) += reach;
  }
  return range;
}

Elements elements_of(const ConstTensorView& view) {
  return {view.data(), static_cast<std::int64_t>(size_in_bytes(view.dtype())), view.extents(),
          view.strides()};
}

bool share(const Elements& a, const Elements& b) {
  if (!meet(a.data, range_of(a), b.data, range_of(b))) return false;
  const auto distance = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(b.data) -
                                                  reinterpret_cast<std::uintptr_t>(a.data));
  Search search;
  search.add(a.extents, a.strides, a.bytes, false);
  search.add(b.extents, b.strides, b.bytes, true);
  return search.finds(1 - b.bytes - distance, a.bytes - 1 - distance);
}

std::string described(const ConstTensorView& view) {
  return fmt::format("{} with strides {} at {}", to_string(view.extents()),
                     to_string(view.strides()), view.data());
}

}  // namespace

bool overlaps_itself(const Extents& extents, const Strides& strides) {
  // Sorted by stride, each dimension must step beyond all that the smaller ones can reach.
  std::array<int, Dims::max_rank> order{};
  std::size_t count = 0;
  for (int i = 0; i < extents.rank(); ++i) {
    if (extents[i] == 0) return false;
    if (extents[i] == 1) continue;
    std::size_t at = count++;
    for (; at > 0 && std::abs(strides[order[at - 1]]) > std::abs(strides[i]); --at)
      order[at] = order[at - 1];
    order[at] = i;
  }
  std::int64_t reach = 0;
  for (std::size_t at = 0; at < count; ++at) {
    const std::int64_t stride = std::abs(strides[order[at]]);
    if (stride <= reach) return true;
    reach += stride * (extents[order[at]] - 1);
  }
  return false;
}

ByteRange byte_range(DType dtype, const Extents& extents, const Strides& strides) {
  return range_of({nullptr, static_cast<std::int64_t>(size_in_bytes(dtype)), extents, strides});
}

bool overlap(const ConstTensorView& a, const ConstTensorView& b) {
  return share(elements_of(a), elements_of(b));
}

bool same_memory(const ConstTensorView& a, const ConstTensorView& b) {
  if (a.data() != b.data() || a.dtype() != b.dtype() || a.extents() != b.extents()) return false;
  for (int i = 0; i < a.rank(); ++i)
    if (a.extent(i) > 1 && a.stride(i) != b.stride(i)) return false;
  return true;
}

void refuse_overlap(std::string_view operation, std::string_view input, const ConstTensorView& x,
                    const ConstTensorView& y, std::string_view output) {
  if (overlap(x, y))
    refuse_argument(
        operation,
        fmt::format("{} overlaps {}: {} is {}, {} is {}; expected memory of its own for {}", output,
                    input, input, described(x), output, described(y), output));
}

ConvRanges ranges_of(const ConvProblem& problem) {
  const DType dtype = problem.dtype;
  const auto range = [&](const ConvOperand& operand) {
    return byte_range(dtype, operand.extents, operand.strides);
  };
  return {.x = range(image_of(problem)),
          .w = range(filters_of(problem)),
          .bias = byte_range(dtype, {bias_elements(problem)}, {1}),
          .y = range(output_of(problem))};
}

void refuse_overlaps(std::string_view operation, const ConvProblem& problem,
                     const ConvTensors& tensors) {
  const auto check = [&](const ConstTensorView& output, std::string_view name) {
    const auto against = [&](const ConstTensorView& input, std::string_view of_input) {
      if (!input.empty() && !output.empty())
        refuse_overlap(operation, of_input, input, output, name);
    };
    against(tensors.x, image_of(problem).name);
    against(tensors.w, filters_of(problem).name);
    against(tensors.bias, "bias");
    against(tensors.mask, "mask");
  };
  check(tensors.y, output_of(problem).name);
  check(tensors.db, "db");
  if (!tensors.db.empty()) refuse_overlap(operation, "db", tensors.db, tensors.y, "dw");
}

void refuse_workspace_overlaps(std::string_view operation, const ConvProblem& problem,
                               const ConvTensors& tensors, const void* workspace,
                               std::size_t bytes) {
  const auto check = [&](std::string_view name, const ConstTensorView& tensor) {
    const Extents one{};
    const Elements all{workspace, static_cast<std::int64_t>(bytes), one, one};
    if (!tensor.empty() && share(elements_of(tensor), all))
      refuse_argument(operation,
                      fmt::format("the workspace of {} bytes at {} overlaps {}, which is {}; "
                                  "expected memory of its own",
                                  bytes, workspace, name, described(tensor)));
  };
  check(image_of(problem).name, tensors.x);
  check(filters_of(problem).name, tensors.w);
  check("bias", tensors.bias);
  check("mask", tensors.mask);
  check(output_of(problem).name, tensors.y);
  check("db", tensors.db);
}

}  // namespace plumb
