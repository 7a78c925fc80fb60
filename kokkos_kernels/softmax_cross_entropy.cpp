// Softmax with cross-entropy, a row to a work item, which goes along it alone and in order; the
// mean of the losses behind it, by one.
//
// Bytes: the logits three times, the second and third from caches; dlogits once.
#include <cmath>

#include "kokkos_kernels/operators.hpp"
#include "kokkos_kernels/scalar.hpp"

namespace plumb::kokkos {
namespace {

template <class Stored>
struct CrossEntropyRow {
  using Value = ComputeType<Stored>;
  std::int64_t classes, x_n, x_c, dx_n, dx_c, label_step;
  Value share;
  const Stored* x;
  Stored* dx;
  const std::int64_t* labels;
  double* losses;

  explicit CrossEntropyRow(const CrossEntropyLaunch& call)
      : classes(call.logits.extent(1)),
        x_n(call.logits.stride(0)),
        x_c(call.logits.stride(1)),
        dx_n(call.dlogits.empty() ? 0 : call.dlogits.stride(0)),
        dx_c(call.dlogits.empty() ? 0 : call.dlogits.stride(1)),
        label_step(call.label_stride),
        share(static_cast<Value>(call.scale / static_cast<double>(call.logits.extent(0)))),
        x(static_cast<const Stored*>(call.logits.data())),
        dx(static_cast<Stored*>(call.dlogits.data())),
        labels(call.labels),
        losses(call.losses) {}

  KOKKOS_FUNCTION void operator()(std::int64_t n) const {
    const Stored* from = x + n * x_n;
    const std::int64_t label = labels[n * label_step];
    const bool is_class = label >= 0 && label < classes;
    const Value none = std::numeric_limits<Value>::quiet_NaN();
    Value largest = -infinity<Value>, sum = 0;
    for (std::int64_t i = 0; i < classes; ++i) {
      const auto value = convert<Value>(from[i * x_c]);
      if (value > largest) largest = value;
    }
    // A NaN is passed over by the maximum; it comes into everything by the sum.
    for (std::int64_t i = 0; i < classes; ++i)
      sum += std::exp(convert<Value>(from[i * x_c]) - largest);
    if (losses) {
      Value loss = none;
      if (is_class) loss = std::log(sum) + (largest - convert<Value>(from[label * x_c]));
      losses[n] = static_cast<double>(loss);
    }
    if (!dx) return;
    for (std::int64_t i = 0; i < classes; ++i) {
      Value probability = none;
      if (is_class) probability = std::exp(convert<Value>(from[i * x_c]) - largest) / sum;
      if (i == label) probability -= 1;
      dx[n * dx_n + i * dx_c] = convert<Stored>(probability * share);
    }
  }
};

template <class Stored>
struct MeanLoss {
  std::int64_t rows;
  const double* losses;
  Stored* loss;

  KOKKOS_FUNCTION void operator()(std::int64_t) const {
    double sum = 0;
    for (std::int64_t n = 0; n < rows; ++n) sum += losses[n];
    *loss = convert<Stored>(static_cast<ComputeType<Stored>>(sum / static_cast<double>(rows)));
  }
};

}  // namespace

void softmax_cross_entropy(const CrossEntropyLaunch& call, const Instance& instance) {
  const std::int64_t rows = call.logits.extent(0);
  with_instance(instance, [&]<class Space>(const Space& space) {
    if (rows > 0)
      with_any_stored(call.logits.dtype(), [&]<class Stored>(Stored) {
        Kokkos::parallel_for("plumb.softmax_cross_entropy", all_elements(space, {rows}),
                             CrossEntropyRow<Stored>(call));
      });
    if (call.loss.empty()) return;
    with_any_stored(call.loss.dtype(), [&]<class Stored>(Stored) {
      Kokkos::parallel_for(
          "plumb.softmax_cross_entropy.mean", all_elements(space, {1}),
          MeanLoss<Stored>{rows, call.losses, static_cast<Stored*>(call.loss.data())});
    });
  });
}

}  // namespace plumb::kokkos
