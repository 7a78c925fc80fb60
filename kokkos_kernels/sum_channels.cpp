// Sums over all but the channels, for the gradient of a bias: y[c] = sum of x[n,c,d,h,w], one work
// item a channel, in double: in 256 chains of which every one takes each 256th element, and which
// are added in halves. Every backend has this order (docs/numerics.md).
//
// Bytes: x once. Few channels leave most of a device idle.
#include "kokkos_kernels/image.hpp"
#include "kokkos_kernels/operators.hpp"
#include "kokkos_kernels/scalar.hpp"

namespace plumb::kokkos {
namespace {

template <class Stored>
struct SumChannels {
  using Value = ComputeType<Stored>;
  const Stored* x;
  Stored* y;
  std::int64_t extents[5], steps[5], y_step;
  bool accumulates;

  explicit SumChannels(const SumLaunch& call)
      : x(static_cast<const Stored*>(call.x.data())),
        y(static_cast<Stored*>(call.y.data())),
        y_step(call.y.stride(0)),
        accumulates(call.accumulate) {
    for (int i = 0; i < 5; ++i) {
      extents[i] = call.x.extent(i);
      steps[i] = step(call.x.extents(), call.x.strides(), i);
    }
  }

  KOKKOS_FUNCTION void operator()(std::int64_t c) const {
    constexpr int lanes = 256;
    double sums[lanes] = {};
    int lane = 0;
    for (std::int64_t n = 0; n < extents[0]; ++n)
      for (std::int64_t d = 0; d < extents[2]; ++d)
        for (std::int64_t h = 0; h < extents[3]; ++h)
          for (std::int64_t w = 0; w < extents[4]; ++w, lane = (lane + 1) % lanes)
            sums[lane] += static_cast<double>(convert<Value>(
                x[n * steps[0] + c * steps[1] + d * steps[2] + h * steps[3] + w * steps[4]]));
    for (int half = lanes / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
    double sum = sums[0];
    Stored& result = y[c * y_step];
    if (accumulates) sum += static_cast<double>(convert<Value>(result));
    result = convert<Stored>(rounded_once<Stored>(sum) + Value{0});  // a zero has no sign
  }
};

}  // namespace

void sum_channels(const SumLaunch& call, const Instance& instance) {
  with_any_stored(call.x.dtype(), [&]<class Stored>(Stored) {
    with_instance(instance, [&]<class Space>(const Space& space) {
      Kokkos::parallel_for("plumb.sum_channels", all_elements(space, call.y.extents()),
                           SumChannels<Stored>(call));
    });
  });
}

}  // namespace plumb::kokkos
