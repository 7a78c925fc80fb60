// A step of stochastic gradient descent, one work item an element. Every operation rounds by
// itself, as on other devices.
//
// Bytes: dw is read; w and the velocity are read and written.
#include "kokkos_kernels/image.hpp"
#include "kokkos_kernels/operators.hpp"
#include "kokkos_kernels/scalar.hpp"

namespace plumb::kokkos {
namespace {

template <class Stored>
struct SgdStep {
  using Value = ComputeType<Stored>;
  Stored *w, *velocity;
  const Stored* dw;
  Value rate, momentum, decay;
  bool nesterov;
  ElementOffsets<3> offsets;

  explicit SgdStep(const SgdLaunch& call)
      : w(static_cast<Stored*>(call.w.data())),
        velocity(static_cast<Stored*>(call.velocity.data())),
        dw(static_cast<const Stored*>(call.dw.data())),
        rate(static_cast<Value>(call.options.learning_rate)),
        momentum(static_cast<Value>(call.options.momentum)),
        decay(static_cast<Value>(call.options.weight_decay)),
        nesterov(call.options.nesterov),
        offsets(call.w.extents(),
                {call.w.strides(), call.dw.strides(),
                 call.velocity.empty() ? call.w.strides() : call.velocity.strides()}) {}

  KOKKOS_FUNCTION void operator()(std::int64_t element) const {
    const auto [to, from, kept] = offsets.at(element).of;
    const auto before = convert<Value>(w[to]);
    auto direction = convert<Value>(dw[from]);
    if (decay != 0) direction += rounded_product(decay, before);
    if (velocity) {
      const Value now = rounded_product(momentum, convert<Value>(velocity[kept])) + direction;
      velocity[kept] = convert<Stored>(now);
      direction = nesterov ? direction + rounded_product(momentum, now) : now;
    }
    w[to] = convert<Stored>(before - rounded_product(rate, direction));
  }
};

}  // namespace

void sgd_step(const SgdLaunch& call, const Instance& instance) {
  with_any_stored(call.w.dtype(), [&]<class Stored>(Stored) {
    with_instance(instance, [&]<class Space>(const Space& space) {
      Kokkos::parallel_for("plumb.sgd_step", all_elements(space, call.w.extents()),
                           SgdStep<Stored>(call));
    });
  });
}

}  // namespace plumb::kokkos
