// Softmax with cross-entropy: a row to a thread, which writes the row's loss and its gradient; the
// mean of the losses is taken behind it, in the order of the rows.
#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu_kernels/nn/operators.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

template <class Stored>
void take_row(const CrossEntropyLaunch& launch, int64_t n) {
  using T = decltype(widen(Stored{}));
  const ConstTensorView& logits = launch.logits;
  const TensorView& dlogits = launch.dlogits;
  const int64_t rows = logits.extent(0), classes = logits.extent(1), step = logits.stride(1);
  const auto* const x = static_cast<const Stored*>(logits.data()) + n * logits.stride(0);
  const auto at = [&](int64_t i) { return widen(x[i * step]); };
  const int64_t label = launch.labels[n * launch.label_stride];
  const bool is_class = label >= 0 && label < classes;
  const T none = std::numeric_limits<T>::quiet_NaN();
  T max = -std::numeric_limits<T>::infinity();
  for (int64_t i = 0; i < classes; ++i) max = at(i) <= max || max != max ? max : at(i);
  T sum = 0;
  for (int64_t i = 0; i < classes; ++i) sum += std::exp(at(i) - max);
  if (launch.losses)
    launch.losses[n] = static_cast<double>(is_class ? std::log(sum) + (max - at(label)) : none);
  if (dlogits.empty()) return;
  const T share = static_cast<T>(launch.scale / static_cast<double>(rows));
  auto* const to = static_cast<Stored*>(dlogits.data()) + n * dlogits.stride(0);
  for (int64_t i = 0; i < classes; ++i) {
    const T probability = is_class ? std::exp(at(i) - max) / sum : none;
    to[i * dlogits.stride(1)] =
        narrow<Stored>((i == label ? probability - 1 : probability) * share);
  }
}

}  // namespace

void cpu_softmax_cross_entropy(const CrossEntropyLaunch& launch) {
  const int64_t rows = launch.logits.extent(0);
  with_type(launch.logits.dtype(), [&](auto stored) {
    parallel_for(threads_for(element_count(launch.logits.extents())), rows,
                 [&](int64_t n) { take_row<decltype(stored)>(launch, n); });
  });
  if (launch.loss.empty()) return;
  double sum = 0;
  for (int64_t n = 0; n < rows; ++n) sum += launch.losses[n];
  with_type(launch.loss.dtype(), [&](auto stored) {
    using Stored = decltype(stored);
    *static_cast<Stored*>(launch.loss.data()) = narrow<Stored>(sum / static_cast<double>(rows));
  });
}

}  // namespace plumb
