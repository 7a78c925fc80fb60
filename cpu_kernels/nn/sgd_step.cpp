// A step of stochastic gradient descent. Every operation rounds by itself, as on other devices.
#include "cpu_kernels/nn/operators.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

template <class Stored>
void sgd_step(const SgdLaunch& launch) {
  using T = decltype(widen(Stored{}));
  const auto rate = static_cast<T>(launch.options.learning_rate);
  const auto momentum = static_cast<T>(launch.options.momentum);
  const auto decay = static_cast<T>(launch.options.weight_decay);
  const bool has_velocity = !launch.velocity.empty(), nesterov = launch.options.nesterov;
  const Strides &of_w = launch.w.strides(), &from = launch.dw.strides();
  const Strides& of_v = has_velocity ? launch.velocity.strides() : of_w;
  auto* const w = static_cast<Stored*>(launch.w.data());
  auto* const velocity = static_cast<Stored*>(launch.velocity.data());
  const auto* const dw = static_cast<const Stored*>(launch.dw.data());
  const auto step_run = [&](int64_t count, int64_t w_run, int64_t dw_run, int64_t v_run) {
    for (int64_t k = 0; k < count; ++k) {
      Stored& weight = w[w_run + k * of_w[4]];
      const T before = widen(weight);
      T direction = widen(dw[dw_run + k * from[4]]);
      if (decay != 0) direction += decay * before;
      if (has_velocity) {
        Stored& kept = velocity[v_run + k * of_v[4]];
        const T now = momentum * widen(kept) + direction;
        kept = narrow<Stored>(now);
        direction = nesterov ? direction + momentum * now : now;
      }
      weight = narrow<Stored>(before - rate * direction);
    }
  };
  for_each_run(launch.w.extents(), step_run, of_w, from, of_v);
}

}  // namespace

void cpu_sgd_step(const SgdLaunch& launch) {
  with_type(launch.w.dtype(), [&](auto stored) { sgd_step<decltype(stored)>(launch); });
}

}  // namespace plumb
